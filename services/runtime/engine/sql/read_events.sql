-- One row without a sequence when there are no events to read, none at all when there is no such run any more.
SELECT e.sequence, e.kind,
    CASE WHEN %(hears_callbacks)s THEN e.payload ELSE e.payload - 'callback_events' END AS payload,
    e.created_at, to_jsonb(d.*) AS decision
FROM platform.runs AS r
LEFT JOIN platform.run_events AS e ON e.run_id = r.run_id AND e.sequence > %(after)s
LEFT JOIN platform.decisions AS d ON d.run_id = e.run_id AND d.sequence = e.decision_sequence
WHERE r.run_id = %(run_id)s
ORDER BY e.sequence
LIMIT %(limit)s
