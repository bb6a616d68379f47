-- Too old, or beyond the most that are kept of an agent; the newest of one that is there stays, however old.
    SELECT c.change_id, c.agent, pg_column_size(c.limits) + 200 AS size FROM (
        SELECT change_id, agent, limits, changed_at, row_number() OVER (PARTITION BY agent ORDER BY change_id DESC) AS place
        FROM platform.limit_changes
    ) AS c
    WHERE (c.agent = p.agent OR (p.agent IS NULL AND c.agent <> ALL (p.others)))
        AND (c.place > 1000 OR (c.changed_at < p.decided_until AND (c.place > 1 OR NOT EXISTS (
            SELECT 1 FROM platform.limits_in_force AS l WHERE l.agent = c.agent AND l.seen_at > now() - interval '7 days'))))
