-- Past weeks, each from where the one before it ends.
WITH parts AS (
    SELECT parent.relname AS of, part.relname AS name, part.run_id AS upper,
        lag(part.run_id) OVER (PARTITION BY parent.oid ORDER BY part.run_id) AS lower
    FROM pg_class AS parent
    JOIN pg_inherits AS i ON i.inhparent = parent.oid
    CROSS JOIN LATERAL (
        SELECT relname, substring(pg_get_expr(relpartbound, oid) FROM 'TO \(''([0-9a-f-]{36})''\)')::uuid AS run_id
        FROM pg_class WHERE oid = i.inhrelid
    ) AS part
    WHERE parent.relnamespace = 'platform'::regnamespace AND parent.relname IN ('run_events', 'decisions')
        AND part.run_id IS NOT NULL
)
SELECT of::text, name::text FROM parts
WHERE upper <= %(this_week)s::uuid AND CASE of
    WHEN 'decisions' THEN upper <= %(oldest_kept)s::uuid AND NOT EXISTS (
        SELECT FROM platform.runs WHERE run_id < upper AND (lower IS NULL OR run_id >= lower)
            AND (ended_at IS NULL OR ended_at >= %(decided_until)s))
    ELSE NOT EXISTS (
        SELECT FROM platform.runs WHERE run_id < upper AND (lower IS NULL OR run_id >= lower))
    END
ORDER BY upper
