-- A step of a claimed run, in one statement and so in one transaction: nothing is written unless the claim still holds.
WITH fence AS (
    UPDATE runs
    SET idle_claims = 0,
        event_count = event_count + %(event_count)s,
        decision_count = decision_count + %(decision_count)s,
        model_calls = coalesce(%(model_calls)s, model_calls),
        tool_calls = coalesce(%(tool_calls)s, tool_calls),
        input_tokens = coalesce(%(input_tokens)s, input_tokens),
        output_tokens = coalesce(%(output_tokens)s, output_tokens),
        wall_time_s = coalesce(%(wall_time_s)s, wall_time_s)
    WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND state = 'RUNNING'
    RETURNING agent, cancel_requested,
        event_count - %(event_count)s AS event_base,
        decision_count - %(decision_count)s AS decision_base
), checkpoint AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(checkpoint_id)s, %(parent_checkpoint_id)s,
        %(body)b::bytea, %(changes)b::bytea, %(metadata)s::jsonb
    FROM fence
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET body = excluded.body, changes = excluded.changes, metadata = excluded.metadata
), written AS (
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(parent_checkpoint_id)s, %(task_id)s, %(idx)s, %(task_path)s,
        %(writes)b::bytea
    FROM fence
    WHERE %(task_id)s::text IS NOT NULL
    ON CONFLICT DO NOTHING
), decided AS (
    INSERT INTO decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules, grounds,
        facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls)
    SELECT %(run_id)s, fence.decision_base + d.n, d.decision_id, fence.agent, d.router, d.rule, d.destination,
        d.rejected_rules, d.grounds, d.facts, d.policy_version, %(checkpoint_id)s, d.trace_id, d.span_id, d.node,
        d.node_elapsed_ms, d.calls
    FROM fence, jsonb_to_recordset(%(decisions)s::jsonb) AS d (n bigint, decision_id text, router text, rule text,
        destination text, rejected_rules jsonb, grounds jsonb, facts jsonb, policy_version text, trace_id text,
        span_id text, node text, node_elapsed_ms double precision, calls jsonb)
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind, decision_sequence, payload)
    SELECT %(run_id)s, fence.event_base + e.n, e.kind, fence.decision_base + e.decision, e.payload
    FROM fence, jsonb_to_recordset(%(events)s::jsonb) AS e (n bigint, kind text, decision bigint, payload jsonb)
)
SELECT event_base, decision_base, cancel_requested, now() FROM fence
