WITH expired AS (
    UPDATE runs
    SET state = 'NEEDS_REVIEW', stop_reason = 'input_expired', ended_at = now(), event_count = event_count + 1
    WHERE state = 'AWAITING_INPUT' AND (input_request ->> 'expires_at')::timestamptz < now()
    RETURNING *
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind) SELECT run_id, event_count, 'run_ended' FROM expired
)
SELECT * FROM expired
