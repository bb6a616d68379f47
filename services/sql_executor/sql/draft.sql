-- name: tables
-- Tables with their primary key, and its only column with the type, where it has one.
SELECT n.nspname AS schema, c.relname AS name, coalesce(p.columns, '{}') AS primary_key,
    CASE WHEN cardinality(p.columns) = 1 THEN p.columns[1] END AS key,
    CASE WHEN cardinality(p.columns) = 1 THEN p.kind END AS key_type
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
    SELECT array_agg(a.attname::text ORDER BY a.attnum) AS columns, min(format_type(a.atttypid, NULL)) AS kind
    FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
    WHERE k.conrelid = c.oid AND k.contype = 'p'
) AS p ON TRUE
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = ANY (%(schemas)s) ORDER BY 1, 2

-- name: references
SELECT n.nspname AS schema, c.relname AS name, a.attname::text AS column, tn.nspname AS target_schema, t.relname AS target,
    ta.attname::text AS key
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class t ON t.oid = k.confrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
JOIN pg_attribute ta ON ta.attrelid = k.confrelid AND ta.attnum = k.confkey[1]
WHERE k.contype = 'f' AND cardinality(k.conkey) = 1 AND n.nspname = ANY (%(schemas)s) AND tn.nspname = ANY (%(schemas)s)
ORDER BY 1, 2, 3
