-- Created claimed when an owner is given, else pending.
WITH created AS (
    INSERT INTO runs (run_id, agent, graph_version, subject, roles, thread_id, request_id, correlation_id, input, budget,
        traceparent, state, owner, epoch, lease_expires_at, started_at, event_count)
    SELECT %(run_id)s, %(agent)s, %(graph_version)s, %(subject)s, %(roles)s, %(thread_id)s, %(request_id)s,
        %(correlation_id)s, %(input)s, %(budget)s::jsonb, %(traceparent)s,
        CASE WHEN o.owner IS NULL THEN 'PENDING' ELSE 'RUNNING' END, o.owner,
        CASE WHEN o.owner IS NULL THEN 0 ELSE 1 END,
        CASE WHEN o.owner IS NULL THEN NULL ELSE now() + make_interval(secs => %(lease_s)s) END,
        CASE WHEN o.owner IS NULL THEN NULL ELSE now() END,
        CASE WHEN o.owner IS NULL THEN 0 ELSE 1 END
    FROM (SELECT %(owner)s::text AS owner) AS o
    ON CONFLICT (subject, request_id) WHERE request_id IS NOT NULL DO NOTHING
    RETURNING *
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind, payload)
    SELECT run_id, 1, 'state_changed', '{"state": "RUNNING"}' FROM created WHERE owner IS NOT NULL
)
SELECT * FROM created
