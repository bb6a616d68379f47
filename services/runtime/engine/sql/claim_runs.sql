-- A thread's runs go one after another, in the order they were created. What this replica has no graph for waits for one
-- that has: while releases change places, not all have the same.
WITH candidates AS (
    SELECT run_id FROM runs AS r
    WHERE state = 'PENDING' AND agent = ANY (%(agents)s)
        AND (thread_id IS NULL OR NOT EXISTS (
            SELECT 1 FROM runs AS other
            WHERE other.subject = r.subject AND other.thread_id = r.thread_id
                AND (other.state IN ('RUNNING', 'AWAITING_INPUT')
                    OR (other.state = 'PENDING' AND (other.created_at, other.run_id) < (r.created_at, r.run_id)))))
    ORDER BY created_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE runs
    SET state = 'RUNNING', owner = %(owner)s, epoch = epoch + 1, idle_claims = idle_claims + 1,
        lease_expires_at = now() + make_interval(secs => %(lease_s)s),
        started_at = coalesce(started_at, now()), event_count = event_count + 1
    FROM candidates
    WHERE runs.run_id = candidates.run_id
    RETURNING runs.*
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, 'state_changed', '{"state": "RUNNING"}' FROM claimed
)
SELECT * FROM claimed
