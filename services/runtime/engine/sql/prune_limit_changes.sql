WITH p AS (
    SELECT %(agent)s::text AS agent, %(others)s::text[] AS others, %(decided_until)s::timestamptz AS decided_until
), gone AS (
    DELETE FROM platform.limit_changes AS c USING (
        SELECT old.change_id, old.size FROM p CROSS JOIN LATERAL ({prunable_limit_changes.sql}) AS old LIMIT %(limit)s
    ) AS old
    WHERE c.change_id = old.change_id
    RETURNING c.agent, old.size
)
SELECT agent, count(*), sum(size) FROM gone GROUP BY agent
