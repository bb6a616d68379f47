-- name: costs
-- How many of a function's arguments have a length of their own, and how many are collections; of several of the same name,
-- the most.
SELECT p.proname AS function_name,
       max(cardinality(ARRAY(SELECT 1 FROM unnest(p.proargtypes) AS a JOIN pg_type t ON t.oid = a WHERE t.typlen < 0))) AS long,
       max(cardinality(ARRAY(
           SELECT 1 FROM unnest(p.proargtypes) AS a JOIN pg_type t ON t.oid = a
           WHERE t.typcategory = 'A' OR t.typname IN ('json', 'jsonb', 'anyarray', 'anycompatiblearray')
       ))) AS collections
FROM pg_proc p
WHERE p.proname = ANY (%s)
GROUP BY p.proname
