-- How long, in seconds, the run that waits longest could have begun: of the oldest that any replica with room may claim.
-- Since when an answered run is pending is written nowhere, and it goes by the same turns as the others.
SELECT coalesce(extract(epoch FROM now() - min(since)), 0)::float8
FROM (
    SELECT greatest(r.created_at, r.not_before, happened.created_at) AS since
    FROM platform.runs AS r LEFT JOIN platform.run_events AS happened
        ON happened.run_id = r.run_id AND happened.sequence = r.event_count
    WHERE r.state = 'PENDING' AND coalesce(r.not_before, r.created_at) <= now() AND r.answer IS NULL
        AND (r.thread_id IS NULL OR NOT EXISTS (
            SELECT 1 FROM platform.runs AS other
            WHERE other.subject = r.subject AND other.thread_id = r.thread_id AND other.thread_id IS NOT NULL
                AND (other.state IN ('RUNNING', 'AWAITING_INPUT')
                    OR other.state = 'PENDING' AND (other.created_at, other.run_id) < (r.created_at, r.run_id))))
    ORDER BY r.created_at
    LIMIT %(most)s
) AS oldest
