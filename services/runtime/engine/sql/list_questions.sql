-- Those that wait, and that a caller may answer or has asked by a run of their own; oldest first.
SELECT {question_columns.sql}
FROM platform.questions AS q JOIN platform.runs AS r USING (run_id)
WHERE q.state = 'OPEN' AND q.expires_at > now()
    AND ({answer_right.sql} IS NOT NULL OR (q.subject = %(subject)s AND r.roles <@ %(roles)s::text[] AND NOT %(answerable)s))
    AND (%(agent)s::text IS NULL OR q.agent = %(agent)s)
    AND (%(after_asked)s::timestamptz IS NULL
        OR (q.asked_at, q.run_id) > (%(after_asked)s::timestamptz, %(after_run_id)s::uuid))
ORDER BY q.asked_at, q.run_id
LIMIT %(limit)s
