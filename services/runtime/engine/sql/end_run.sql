WITH ended AS (
    UPDATE platform.runs
    SET state = %(state)s, output = %(output)s, outcome = %(outcome)s, stop_reason = %(stop_reason)s, retryable = %(retryable)s,
        error = %(error)s, ended_at = now(), owner = NULL, lease_expires_at = NULL,
        input_request = NULL, answer = NULL, event_count = event_count + 1
    WHERE {claim_holds.sql}
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, 'run_ended', %(event)s::jsonb FROM ended
)
SELECT {ended.*} FROM ended
