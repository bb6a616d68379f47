-- A run that was asked to stop while it came to its question ends here, and asks nobody.
WITH paused AS (
    UPDATE platform.runs
    SET state = CASE WHEN cancel_requested THEN 'CANCELLED' ELSE 'AWAITING_INPUT' END,
        stop_reason = CASE WHEN cancel_requested THEN 'cancelled' ELSE stop_reason END,
        outcome = CASE WHEN cancel_requested THEN 'cancelled' ELSE outcome END,
        ended_at = CASE WHEN cancel_requested THEN now() END,
        input_request = CASE WHEN NOT cancel_requested THEN %(input_request)s::jsonb END,
        answer = NULL, attempts = coalesce(%(attempts)s::jsonb, attempts), idle_claims = 0, suspicion = 0, owner = NULL, lease_expires_at = NULL, event_count = event_count + 1
    WHERE {claim_holds.sql}
    RETURNING {runs.*}, cancel_requested
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, CASE WHEN cancel_requested THEN 'run_ended' ELSE 'state_changed' END,
        CASE WHEN NOT cancel_requested
            THEN jsonb_build_object('state', state, 'input_request', input_request) || %(event)s::jsonb END
    FROM paused
)
SELECT {paused.*} FROM paused
