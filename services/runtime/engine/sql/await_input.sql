WITH waiting AS (
    UPDATE runs
    SET state = 'AWAITING_INPUT', input_request = %(input_request)s::jsonb, answer = NULL, owner = NULL,
        lease_expires_at = NULL, event_count = event_count + 1
    WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND state = 'RUNNING'
    RETURNING *
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, 'state_changed',
        jsonb_build_object('state', 'AWAITING_INPUT', 'input_request', input_request)
    FROM waiting
)
SELECT * FROM waiting
