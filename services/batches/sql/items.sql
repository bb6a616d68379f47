SELECT number, key, state, retry_count, run_id, run, error, ended_as, given, CASE WHEN %(with_inputs)s THEN input END AS input
FROM (
    SELECT *, sum(size) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) - size AS bytes_before
    FROM (
        SELECT *, coalesce(octet_length(run), 0) + CASE WHEN %(with_inputs)s THEN octet_length(input) ELSE 0 END AS size
        FROM platform.batch_items
        WHERE batch_id = %(batch_id)s AND number > %(after)s ORDER BY number LIMIT %(limit)s
    ) AS next
) AS measured
WHERE bytes_before < %(bytes)s ORDER BY number
