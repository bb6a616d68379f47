SELECT run_id, agent, graph_version, subject, roles, thread_id, correlation_id, state, ''::bytea AS input,
    NULL::bytea AS output, stop_reason, error, input_request, NULL AS answer, budget, model_calls, tool_calls,
    input_tokens, output_tokens, wall_time_s, epoch, idle_claims, event_count, traceparent, created_at, started_at, ended_at
FROM runs
WHERE (%(any_subject)s OR subject = %(subject)s)
    AND (%(agent)s::text IS NULL OR agent = %(agent)s)
    AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
    AND (%(before_created)s::timestamptz IS NULL
        OR (created_at, run_id) < (%(before_created)s::timestamptz, %(before_run_id)s::uuid))
ORDER BY created_at DESC, run_id DESC
LIMIT %(limit)s
