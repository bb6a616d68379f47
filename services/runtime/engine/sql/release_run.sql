-- A run that is to be cancelled ends here, rather than begin anew elsewhere. A claim that is let go of is not held
-- against the run, only one that ended with its replica.
WITH released AS (
    UPDATE platform.runs
    SET state = CASE WHEN cancel_requested THEN 'CANCELLED' ELSE 'PENDING' END, owner = NULL, lease_expires_at = NULL,
        idle_claims = greatest(idle_claims - 1, 0),
        stop_reason = CASE WHEN cancel_requested THEN 'cancelled' ELSE stop_reason END,
        outcome = CASE WHEN cancel_requested THEN 'cancelled' ELSE outcome END,
        ended_at = CASE WHEN cancel_requested THEN now() END,
        event_count = event_count + cancel_requested::int
    WHERE {claim_holds.sql}
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind)
    SELECT run_id, event_count, 'run_ended' FROM released WHERE state = 'CANCELLED'
)
SELECT {released.*} FROM released
