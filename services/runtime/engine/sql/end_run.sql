WITH ended AS (
    UPDATE runs
    SET state = %(state)s, output = %(output)s, stop_reason = %(stop_reason)s, error = %(error)s, ended_at = now(),
        owner = NULL, lease_expires_at = NULL, input_request = NULL, answer = NULL, event_count = event_count + 1
    WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND state = 'RUNNING'
    RETURNING *
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind) SELECT run_id, event_count, 'run_ended' FROM ended
)
SELECT * FROM ended
