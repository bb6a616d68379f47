-- What a step adds to the ledger and to the events, as `step_rows` does, at the checkpoint that carries it.
decided AS (
    INSERT INTO platform.decisions (run_id, sequence, decision_id, agent, router, rule, destination, rejected_rules, grounds,
        facts, policy_version, checkpoint_id, trace_id, span_id, node, node_elapsed_ms, calls, decided)
    SELECT %(run_id)s, fence.decision_base + d.n, d.decision_id, fence.agent, d.router, d.rule, d.destination,
        d.rejected_rules, d.grounds, d.facts, d.policy_version, %(checkpoint_id)s, d.trace_id, d.span_id, d.node,
        d.node_elapsed_ms, d.calls, d.decided
    FROM fence, jsonb_to_recordset(%(decisions)s::jsonb) AS d (n bigint, decision_id text, router text, rule text,
        destination text, rejected_rules jsonb, grounds jsonb, facts jsonb, policy_version text, trace_id text,
        span_id text, node text, node_elapsed_ms double precision, calls jsonb, decided jsonb)
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, decision_sequence, payload)
    SELECT %(run_id)s, fence.event_base + e.n, e.kind, fence.decision_base + e.decision, e.payload
    FROM fence, jsonb_to_recordset(%(events)s::jsonb) AS e (n bigint, kind text, decision bigint, payload jsonb)
)
