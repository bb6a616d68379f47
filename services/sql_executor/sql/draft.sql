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

-- name: links
-- Every foreign key, of however many columns.
SELECT DISTINCT n.nspname AS schema, c.relname AS name, tn.nspname AS target_schema, t.relname AS target
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class t ON t.oid = k.confrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace
WHERE k.contype = 'f' AND n.nspname = ANY (%(schemas)s)

-- name: columns
-- Columns with their names as queries write them, and the values that the schema itself lists: of an enum, or of a CHECK.
SELECT n.nspname AS schema, c.relname AS name, a.attname::text AS column, quote_ident(a.attname) AS written,
    quote_ident(c.relname) AS table_written, quote_ident(n.nspname) AS schema_written,
    format_type(t.oid, NULL) AS type, t.typcategory::text AS category,
    coalesce(
        (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
        (
            SELECT array_agg(found[1]) FROM pg_constraint k,
                regexp_matches(pg_get_constraintdef(k.oid), '''([^'']+)''', 'g') AS found
            WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]
                AND pg_get_constraintdef(k.oid) ~ '^CHECK \(\(+"?[\w ]+"?\)?(::text)? = ANY '
        ),
        '{}'
    ) AS listed
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = ANY (%(schemas)s) ORDER BY 1, 2, a.attnum

-- name: few_values
-- A column's values, if they are few and each is a word or several; else more than may be, so that none are taken.
SELECT {column}::text AS value FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT %(most)s
