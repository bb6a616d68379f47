SELECT *, (
    SELECT count(*) FROM platform.batch_items WHERE batch_id = %(batch_id)s AND state = 'RUNNING'
) AS running_count
FROM platform.batches WHERE batch_id = %(batch_id)s AND (subject = %(subject)s OR %(sees_all)s)
