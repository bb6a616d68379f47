-- name: columns
SELECT n.nspname AS table_schema,
       c.relname AS table_name,
       quote_ident(c.relname) AS table_written,
       a.attname AS column_name,
       quote_ident(a.attname) AS column_written,
       format_type(a.atttypid, a.atttypmod) AS column_type,
       col_description(c.oid, a.attnum) AS column_comment,
       EXISTS (
           SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
               AND i.indkey[0] = a.attnum AND i.indpred IS NULL
       ) AS is_unique,
       c.reltuples::float8 AS row_count
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS wanted (nspname, relname, place)
JOIN pg_namespace n ON n.nspname = wanted.nspname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.relname AND c.relkind IN ('r', 'p')
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY wanted.place, a.attnum
