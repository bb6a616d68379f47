-- A run that is to be cancelled ends here, rather than begin anew elsewhere.
WITH released AS (
    UPDATE runs
    SET state = CASE WHEN cancel_requested THEN 'CANCELLED' ELSE 'PENDING' END, owner = NULL, lease_expires_at = NULL,
        stop_reason = CASE WHEN cancel_requested THEN 'cancelled' ELSE stop_reason END,
        ended_at = CASE WHEN cancel_requested THEN now() END,
        event_count = event_count + cancel_requested::int
    WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND state = 'RUNNING'
    RETURNING *
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind)
    SELECT run_id, event_count, 'run_ended' FROM released WHERE state = 'CANCELLED'
)
SELECT * FROM released
