-- A read ends behind the item with which its runs come to so many bytes, so that large ones are read a few at a time.
SELECT number, key, state, retry_count, run_id, CASE WHEN %(with_runs)s THEN run END AS run, error,
    ended_as, given, NULL::bytea AS input
FROM (
    SELECT *, sum(coalesce(octet_length(run), 0)) OVER (ORDER BY ended_as ROWS UNBOUNDED PRECEDING)
        - coalesce(octet_length(run), 0) AS bytes_before
    FROM (
        SELECT * FROM platform.batch_items
        WHERE batch_id = %(batch_id)s AND ended_as > %(after)s ORDER BY ended_as LIMIT %(limit)s
    ) AS next
) AS measured
WHERE NOT %(with_runs)s OR bytes_before < %(bytes)s ORDER BY ended_as
