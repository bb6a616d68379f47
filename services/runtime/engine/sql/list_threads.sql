SELECT t.thread_id, t.created_at, r.run_count, r.latest_run_at, r.active_run_id
FROM platform.threads AS t
CROSS JOIN LATERAL (
    SELECT count(*) AS run_count, max(created_at) AS latest_run_at,
        (array_agg(run_id::text ORDER BY state = 'PENDING', created_at) FILTER (WHERE ended_at IS NULL))[1] AS active_run_id
    FROM platform.runs WHERE runs.subject = t.subject AND runs.thread_id = t.thread_id
) AS r
WHERE t.subject = %(subject)s AND r.run_count > 0
    AND (%(thread_id)s::text IS NULL OR t.thread_id = %(thread_id)s)
    AND (%(before_created)s::timestamptz IS NULL
        OR (t.created_at, t.thread_id) < (%(before_created)s::timestamptz, %(before_thread_id)s::text))
ORDER BY t.created_at DESC, t.thread_id DESC
LIMIT %(limit)s
