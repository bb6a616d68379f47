SELECT e.sequence, e.kind, e.payload, e.created_at, to_jsonb(d.*) AS decision
FROM run_events AS e
LEFT JOIN decisions AS d ON d.run_id = e.run_id AND d.sequence = e.decision_sequence
WHERE e.run_id = %(run_id)s AND e.sequence > %(after)s
ORDER BY e.sequence
LIMIT %(limit)s
