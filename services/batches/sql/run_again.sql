UPDATE platform.batch_items SET state = 'PENDING', run_id = NULL, run = NULL, error = '', verdict = NULL, ended_as = NULL,
    retry_count = retry_count + 1
WHERE batch_id = %(batch_id)s AND state = ANY(%(states)s)
