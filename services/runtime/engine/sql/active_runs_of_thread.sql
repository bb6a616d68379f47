SELECT run_id, state FROM platform.runs
WHERE subject = %(subject)s AND thread_id = %(thread_id)s AND state IN ('PENDING', 'RUNNING', 'AWAITING_INPUT')
ORDER BY state = 'PENDING', created_at
