-- The answers behind a place that a page holds: as many as are no larger together than it may be, and one at least.
SELECT sequence, answer FROM (
    SELECT sequence, answer, row_number() OVER in_order AS number, sum(octet_length(answer)) OVER in_order AS size_bytes
    FROM (
        SELECT sequence, answer FROM platform.recorded_answers
        WHERE run_id = %(run_id)s AND sequence > %(after)s
        ORDER BY sequence
        LIMIT %(limit)s
    ) AS next
    WINDOW in_order AS (ORDER BY sequence)
) AS sized
WHERE number = 1 OR size_bytes <= %(most_bytes)s
ORDER BY sequence
