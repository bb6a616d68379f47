SELECT count(*) FROM (
    SELECT FROM platform.threads AS t
    WHERE t.subject = %(subject)s AND NOT EXISTS (
        SELECT FROM platform.runs AS r WHERE r.subject = t.subject AND r.thread_id = t.thread_id)
    LIMIT %(most)s
) AS empty
