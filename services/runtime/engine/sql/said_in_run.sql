-- What was said in a run before the answer to one of its questions: its input, and what was asked and answered, in order.
SELECT r.run_id::text, r.agent, r.correlation_id, r.epoch, r.input, ARRAY(
        SELECT ARRAY[q.question, coalesce(q.answer, '')]
        FROM platform.questions AS q
        WHERE q.run_id = r.run_id AND (q.state = 'ANSWERED' OR q.input_request_id = %(input_request_id)s)
        ORDER BY q.asked_at
    ) AS asked
FROM platform.runs AS r
WHERE r.run_id = %(run_id)s
