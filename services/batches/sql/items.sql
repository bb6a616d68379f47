SELECT number, key, state, retry_count, run_id, run, error, ended_as
FROM (
    SELECT *, sum(coalesce(octet_length(run), 0)) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING)
        - coalesce(octet_length(run), 0) AS bytes_before
    FROM (
        SELECT * FROM platform.batch_items
        WHERE batch_id = %(batch_id)s AND number > %(after)s ORDER BY number LIMIT %(limit)s
    ) AS next
) AS measured
WHERE bytes_before < %(bytes)s ORDER BY number
