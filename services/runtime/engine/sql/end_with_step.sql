-- The last step of a claimed run and its end, in one statement and so in one transaction: as `put_step` and `end_run`.
WITH fence AS (
    UPDATE platform.runs
    SET state = %(state)s, output = %(output)s, outcome = %(outcome)s, stop_reason = %(stop_reason)s, retryable = %(retryable)s,
        error = %(error)s, ended_at = now(), owner = NULL, lease_expires_at = NULL,
        input_request = NULL, answer = NULL, idle_claims = 0, suspicion = 0,
        attempts = '[]',
        event_count = event_count + %(event_count)s + 1,
        {step_counts.sql}
    WHERE {claim_holds.sql}
    RETURNING {runs.*},
        event_count - %(event_count)s - 1 AS event_base,
        decision_count - %(decision_count)s AS decision_base
), {step_rows.sql}, ended AS (
    INSERT INTO platform.run_events (run_id, sequence, kind) SELECT run_id, event_count, 'run_ended' FROM fence
)
SELECT event_base, decision_base, now(), {fence.*} FROM fence
