UPDATE platform.batches SET
    state = CASE WHEN state = 'UPLOADING' THEN 'CANCELLED' ELSE 'CANCELLING' END,
    ended_at = CASE WHEN state = 'UPLOADING' THEN clock_timestamp() END,
    expires_at = CASE WHEN state = 'UPLOADING' THEN clock_timestamp() + make_interval(secs => %(kept_s)s)
        ELSE expires_at END
WHERE batch_id = %(batch_id)s AND (subject = %(subject)s OR %(sees_all)s) AND state IN ('UPLOADING', 'RUNNING')
RETURNING *
