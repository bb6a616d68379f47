SELECT *, clock_timestamp() > greatest(lease_until, started_at + interval '2 seconds') AS is_left, (
    SELECT count(*) FROM platform.batch_items WHERE batch_id = %(batch_id)s AND state = 'RUNNING'
) AS running_count
FROM platform.batches WHERE batch_id = %(batch_id)s AND (subject = %(subject)s OR %(sees_all)s)
