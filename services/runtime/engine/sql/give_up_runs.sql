-- Runs that took their replicas down, one after another, and the last one all by themselves.
WITH given_up AS (
    UPDATE platform.runs
    SET state = 'FAILED', stop_reason = %(stop_reason)s, outcome = 'unfinished', ended_at = now(),
        event_count = event_count + 1,
        error = 'the run was started ' || idle_claims || ' times without taking a step, each time until its replica died'
    WHERE state = 'PENDING' AND suspicion = 3
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind) SELECT run_id, event_count, 'run_ended' FROM given_up
)
SELECT {given_up.*} FROM given_up
