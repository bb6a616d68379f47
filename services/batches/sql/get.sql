-- One statement, so that the counts are of the moment of the row: what ends later is told by a later end's number.
SELECT *, clock_timestamp() > greatest(lease_until, started_at + interval '2 seconds') AS is_left, (
    SELECT jsonb_object_agg(state, count) FROM (
        SELECT state, count(*) AS count FROM platform.batch_items WHERE batch_id = %(batch_id)s GROUP BY state
    ) AS counted
) AS counts
FROM platform.batches WHERE batch_id = %(batch_id)s AND (subject = %(subject)s OR %(sees_all)s)
