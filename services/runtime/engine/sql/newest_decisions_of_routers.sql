-- The newest decisions of a router, or of an agent's, behind a place: as many of each, and the newest of these. The routers
-- that the ledger has are walked from one to the next by index; those of earlier releases are among them.
SELECT d.run_id, d.sequence, {decision_columns.sql} FROM (
    WITH RECURSIVE known AS (
        SELECT min(first.router) AS router FROM platform.decisions AS first
        UNION ALL
        SELECT (SELECT min(next.router) FROM platform.decisions AS next WHERE next.router > known.router)
        FROM known WHERE known.router IS NOT NULL
    )
    SELECT router FROM known WHERE %(router)s::text IS NULL AND starts_with(router, %(agent)s || '.')
    UNION ALL
    SELECT %(router)s::text WHERE %(router)s::text IS NOT NULL
) AS chosen
CROSS JOIN LATERAL (
    SELECT d.run_id, d.sequence, {decision_columns.sql} FROM platform.decisions AS d
    WHERE d.router = chosen.router
        AND d.run_id <= %(before_run_id)s::uuid AND d.run_id >= %(oldest_run_id)s::uuid
        AND (d.run_id, d.sequence) < (%(before_run_id)s::uuid, %(before_sequence)s)
    ORDER BY d.run_id DESC, d.sequence DESC
    LIMIT %(most)s
) AS d
ORDER BY d.run_id DESC, d.sequence DESC
LIMIT %(most)s
