SELECT input, output FROM runs
WHERE subject = %(subject)s AND thread_id = %(thread_id)s AND state = 'SUCCEEDED' AND created_at < %(before)s
ORDER BY created_at DESC
LIMIT %(limit)s
