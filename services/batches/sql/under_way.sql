SELECT count(*) AS count FROM platform.batches
WHERE subject = %(subject)s AND state IN ('UPLOADING', 'RUNNING', 'CANCELLING')
