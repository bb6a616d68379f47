-- Created claimed when an owner is given, else pending; not at all when it would break a quota of its caller.
-- The clock is read here and not at the transaction's begin, so that runs of a thread are in the order of its lock.
WITH refused AS MATERIALIZED (
    SELECT * FROM broken_quota(%(subject)s, %(most_at_once)s, %(most_per_minute)s)
), created AS (
    INSERT INTO runs (run_id, agent, graph_version, subject, roles, thread_id, request_id, correlation_id, input, budget,
        traceparent, state, owner, epoch, lease_expires_at, created_at, started_at, event_count)
    SELECT %(run_id)s, %(agent)s, %(graph_version)s, %(subject)s, %(roles)s, %(thread_id)s, %(request_id)s,
        %(correlation_id)s, %(input)s, %(budget)s::jsonb, %(traceparent)s,
        CASE WHEN o.owner IS NULL THEN 'PENDING' ELSE 'RUNNING' END, o.owner,
        CASE WHEN o.owner IS NULL THEN 0 ELSE 1 END,
        CASE WHEN o.owner IS NULL THEN NULL ELSE o.time + make_interval(secs => %(lease_s)s) END,
        o.time,
        CASE WHEN o.owner IS NULL THEN NULL ELSE o.time END,
        CASE WHEN o.owner IS NULL THEN 0 ELSE 1 END
    FROM (SELECT %(owner)s::text AS owner, clock_timestamp() AS time) AS o
    WHERE NOT EXISTS (SELECT 1 FROM refused)
    ON CONFLICT (subject, request_id) WHERE request_id IS NOT NULL DO NOTHING
    RETURNING *
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind, payload, created_at)
    SELECT run_id, 1, 'state_changed', '{"state": "RUNNING"}', created_at FROM created WHERE owner IS NOT NULL
)
SELECT refused.quota, refused.retry_after_s, created.* FROM created FULL JOIN refused ON false
