SELECT {listed_run.sql}
FROM platform.runs AS r
WHERE (%(any_subject)s OR subject = %(subject)s)
    AND (%(agent)s::text IS NULL OR agent = %(agent)s)
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
    AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
    AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s::timestamptz)
    AND (%(before_created)s::timestamptz IS NULL
        OR (created_at, run_id) < (%(before_created)s::timestamptz, %(before_run_id)s::uuid))
ORDER BY created_at DESC, run_id DESC
LIMIT %(limit)s
