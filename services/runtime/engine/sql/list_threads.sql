-- By what is kept with a thread, or by the labels of its latest run, which are texts.
SELECT t.thread_id, t.created_at, t.metadata, r.run_count, coalesce(r.latest_run_at, t.created_at) AS latest_run_at,
    r.active_run_id, coalesce(l.agent, '') AS agent, coalesce(l.labels, '{}') AS labels, coalesce(r.active_state, l.state) AS state
FROM platform.threads AS t
CROSS JOIN LATERAL (
    SELECT count(*) AS run_count, max(created_at) AS latest_run_at,
        (array_agg(run_id::text ORDER BY state = 'PENDING', created_at) FILTER (WHERE ended_at IS NULL))[1] AS active_run_id,
        (array_agg(state ORDER BY state = 'AWAITING_INPUT', created_at) FILTER (WHERE ended_at IS NULL))[1] AS active_state
    FROM platform.runs WHERE runs.subject = t.subject AND runs.thread_id = t.thread_id
) AS r
LEFT JOIN LATERAL (
    SELECT agent, labels, state FROM platform.runs WHERE runs.subject = t.subject AND runs.thread_id = t.thread_id
    ORDER BY created_at DESC, run_id DESC LIMIT 1
) AS l ON true
WHERE t.subject = %(subject)s AND (r.run_count > 0 OR t.metadata <> '{}')
    AND (%(thread_id)s::text IS NULL OR t.thread_id = %(thread_id)s)
    AND (t.metadata @> %(metadata)s::jsonb OR NOT EXISTS (
        SELECT FROM jsonb_each(%(metadata)s::jsonb) AS w
        WHERE NOT (coalesce(l.labels ->> w.key = w.value #>> '{}', false) OR t.metadata @> jsonb_build_object(w.key, w.value))))
    AND (%(before_created)s::timestamptz IS NULL
        OR (t.created_at, t.thread_id) < (%(before_created)s::timestamptz, %(before_thread_id)s::text))
ORDER BY t.created_at DESC, t.thread_id DESC
LIMIT %(limit)s
