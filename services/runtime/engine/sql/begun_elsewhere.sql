-- Pending runs that another graph has begun, or last went on with. One that has no step yet is at home in any.
-- Those of a pool that is there are its own affair.
SELECT run_id::text, agent, graph_version, epoch, created_at FROM platform.runs
WHERE state = 'PENDING' AND epoch > 0 AND graph_version IS DISTINCT FROM %(graphs)s::jsonb ->> agent
    AND (%(graphs)s::jsonb ? agent OR NOT EXISTS (
        SELECT FROM platform.agents AS a WHERE a.name = agent AND a.seen_at > now() - interval '1 minute'))
    AND (created_at, run_id) > (%(after_created)s::timestamptz, %(after_run_id)s::uuid)
ORDER BY created_at, run_id
LIMIT %(limit)s
