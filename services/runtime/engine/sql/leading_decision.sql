-- A run's last decision, if it leads to one of the nodes.
SELECT decision_id, rule, trace_id, span_id FROM platform.decisions
WHERE run_id = %(run_id)s::uuid AND destination = ANY(%(nodes)s)
    AND sequence = (SELECT max(sequence) FROM platform.decisions WHERE run_id = %(run_id)s::uuid)
