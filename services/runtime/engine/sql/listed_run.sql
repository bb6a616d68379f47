-- A run as lists have it: without input, output and answer.
r.run_id, r.agent, r.graph_version, r.subject, r.roles, r.claims, r.thread_id, r.correlation_id, r.state,
    ''::bytea AS input, NULL::bytea AS output, r.outcome, r.stop_reason, r.retryable, r.error, r.input_request, NULL AS answer,
    r.budget,
    r.model_calls, r.tool_calls, r.input_tokens, r.output_tokens, r.wall_time_s, r.epoch, r.claim_id, r.idle_claims,
    r.not_before, r.waiting_for, '[]'::jsonb AS attempts, r.event_count, r.traceparent, r.policy_id, r.labels, r.title,
    r.forked_from, r.rolled_back_by, r.recorded, r.callback_events,
    r.created_at, r.started_at, r.ended_at
