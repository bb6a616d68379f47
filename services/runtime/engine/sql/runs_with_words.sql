-- Runs with words that begin so, whichever are found first and at most so many; NULL of those that have none to look for.
WITH wanted AS MATERIALIZED (
    SELECT string_agg(quote_literal(word) || ':*', ' & ')::tsquery AS terms
    FROM unnest(platform.words_of(array_to_string(%(words)s::text[], ' '))) AS word
)
SELECT CASE WHEN terms IS NOT NULL THEN ARRAY(
    SELECT run_id::text FROM platform.run_words WHERE words @@ terms LIMIT %(most)s
) END AS run_ids
FROM wanted
