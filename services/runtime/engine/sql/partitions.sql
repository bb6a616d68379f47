-- The run ids that a table's partitions end before, but for the default one.
SELECT upper.run_id
FROM pg_inherits AS i
JOIN pg_class AS part ON part.oid = i.inhrelid
CROSS JOIN LATERAL (
    SELECT substring(pg_get_expr(part.relpartbound, part.oid) FROM 'TO \(''([0-9a-f-]{36})''\)') AS run_id
) AS upper
WHERE i.inhparent = format('platform.%%I', %(table)s::text)::regclass AND upper.run_id IS NOT NULL
