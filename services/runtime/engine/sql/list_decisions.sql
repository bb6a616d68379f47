SELECT d.run_id, d.sequence, d.decision_id, d.agent, d.router, d.rule, d.destination, d.rejected_rules, d.grounds,
    d.facts, d.policy_version, d.checkpoint_id, d.trace_id, d.span_id, d.node, d.node_elapsed_ms, d.calls, d.decided_at, d.decided FROM platform.decisions AS d
WHERE d.run_id = %(run_id)s AND d.sequence > %(after)s
ORDER BY d.sequence
LIMIT %(limit)s
