-- The question stays on the row until the graph has taken the answer, so that a crash in between repeats neither.
UPDATE runs SET state = 'PENDING', answer = %(answer)s
WHERE run_id = %(run_id)s AND state = 'AWAITING_INPUT'
    AND input_request ->> 'input_request_id' = %(input_request_id)s
RETURNING *
