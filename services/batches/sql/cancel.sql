UPDATE platform.batches SET state = 'CANCELLING'
WHERE batch_id = %(batch_id)s AND (subject = %(subject)s OR %(sees_all)s) AND state IN ('UPLOADING', 'RUNNING')
RETURNING epoch, started_at
