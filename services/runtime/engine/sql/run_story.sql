-- What happened to a run, but for its decisions themselves, and the moment at which that is so.
SELECT now() AS read_at, e.sequence, e.kind, e.payload - 'callback_events' AS payload,
    e.decision_sequence, e.created_at, q.answer
FROM (SELECT) AS one
LEFT JOIN platform.run_events AS e ON e.run_id = %(run_id)s
LEFT JOIN platform.questions AS q
    ON q.run_id = e.run_id AND q.input_request_id = e.payload #>> '{input_received,input_request_id}'
ORDER BY e.sequence
