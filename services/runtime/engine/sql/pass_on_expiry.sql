-- Nobody answered in time, and it is the graph that says what that means: its run goes on, and is told so. The question
-- stays on the row until the graph has taken that, as with an answer; an empty one is nobody's.
WITH expired AS (
    UPDATE platform.runs
    SET state = 'PENDING', answer = '', input_request = input_request || '{"expired": true}',
        event_count = event_count + 1,
        attempts = attempts || '{"kind": "person", "name": "", "outcome": "expired", "elapsed_ms": 0, "input_tokens": 0,
            "output_tokens": 0}'
    WHERE state = 'AWAITING_INPUT' AND expires_at < now() AND (input_request ->> 'expires_to_graph')::boolean
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, 'state_changed', jsonb_build_object('state', state, 'input_received',
        jsonb_build_object('input_request_id', input_request ->> 'input_request_id', 'expired', true))
    FROM expired
)
SELECT {expired.*} FROM expired
