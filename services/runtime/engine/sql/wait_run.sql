-- Lets go of a run until something is back. The claim counts as none, since it was not in vain by the run's fault. A run
-- that is to be cancelled ends here.
WITH waiting AS (
    UPDATE platform.runs
    SET state = CASE WHEN cancel_requested THEN 'CANCELLED' ELSE 'PENDING' END, owner = NULL, lease_expires_at = NULL,
        stop_reason = CASE WHEN cancel_requested THEN 'cancelled' ELSE stop_reason END,
        outcome = CASE WHEN cancel_requested THEN 'cancelled' ELSE outcome END,
        ended_at = CASE WHEN cancel_requested THEN now() END,
        not_before = CASE WHEN NOT cancel_requested THEN now() + make_interval(secs => %(delay_s)s) END,
        waiting_for = CASE WHEN cancel_requested THEN '' ELSE %(dependency)s END,
        attempts = %(attempts)s::jsonb, idle_claims = greatest(idle_claims - 1, 0), event_count = event_count + 1
    WHERE {claim_holds.sql}
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, CASE WHEN state = 'CANCELLED' THEN 'run_ended' ELSE 'state_changed' END,
        CASE WHEN state = 'PENDING' THEN jsonb_build_object(
            'state', state, 'waiting_for', waiting_for, 'cause', %(cause)s::text, 'not_before', not_before) END
    FROM waiting
)
SELECT {waiting.*} FROM waiting
