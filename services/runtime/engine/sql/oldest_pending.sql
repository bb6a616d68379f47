-- How long, in seconds, the run of each pool that waits longest could have begun: of the oldest that any replica of the pool
-- with room may claim. Each pool has its own, so that runs of one that is away do not hide those of others.
-- Since when an answered run is pending is written nowhere, and it goes by the same turns as the others.
WITH {pools.sql}
SELECT pool, coalesce(extract(epoch FROM now() - oldest.since), 0)::float8
FROM (SELECT pool, names FROM pools WHERE pool <> %(runtime)s UNION ALL SELECT %(runtime)s, NULL) AS each
CROSS JOIN LATERAL (
    SELECT min(since) AS since
    FROM (
        SELECT greatest(r.created_at, r.not_before, happened.created_at) AS since
        FROM platform.runs AS r LEFT JOIN platform.run_events AS happened
            ON happened.run_id = r.run_id AND happened.sequence = r.event_count
        WHERE r.state = 'PENDING' AND coalesce(r.not_before, r.created_at) <= now() AND r.answer IS NULL
            AND CASE WHEN each.names IS NULL
                THEN r.agent <> ALL (ARRAY(SELECT unnest(names) FROM pools WHERE pool <> %(runtime)s))
                ELSE r.agent = ANY (each.names) END
            AND (r.thread_id IS NULL OR NOT EXISTS (
                SELECT 1 FROM platform.runs AS other
                WHERE other.subject = r.subject AND other.thread_id = r.thread_id AND other.thread_id IS NOT NULL
                    AND (other.state IN ('RUNNING', 'AWAITING_INPUT')
                        OR other.state = 'PENDING' AND (other.created_at, other.run_id) < (r.created_at, r.run_id))))
        ORDER BY r.created_at
        LIMIT %(most)s
    ) AS ready
) AS oldest
