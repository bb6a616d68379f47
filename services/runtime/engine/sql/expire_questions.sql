WITH expired AS (
    UPDATE platform.runs
    SET state = 'NEEDS_REVIEW', stop_reason = 'input_expired', outcome = 'unfinished', ended_at = now(),
        event_count = event_count + 1
    WHERE state = 'AWAITING_INPUT' AND expires_at < now()
        AND NOT coalesce((input_request ->> 'expires_to_graph')::boolean, false)
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind) SELECT run_id, event_count, 'run_ended' FROM expired
)
SELECT {expired.*} FROM expired
