-- What models were asked for in the steps of the newest runs of a time that are looked at, by model: calls that took tokens, and
-- these. The most tokens first.
WITH looked_at AS MATERIALIZED (
    SELECT entries.run_id FROM ({source}) AS entries LIMIT %(most)s
), fitting AS MATERIALIZED (
    SELECT looked_at.run_id
    FROM looked_at CROSS JOIN LATERAL (
        SELECT FROM platform.runs WHERE run_id = looked_at.run_id AND (%(agent)s::text IS NULL OR agent = %(agent)s)
        -- One by one: for a join of the two the planner may read every run there is.
        OFFSET 0
    ) AS r
), calls AS (
    SELECT call ->> 'name' AS model, (call ->> 'input_tokens')::numeric AS given, (call ->> 'output_tokens')::numeric AS made,
        coalesce((call ->> 'cached_tokens')::numeric, 0) AS cached
    FROM fitting CROSS JOIN LATERAL (
        SELECT calls FROM platform.decisions WHERE run_id = fitting.run_id
        UNION ALL
        SELECT payload -> 'calls' FROM platform.run_events WHERE run_id = fitting.run_id AND kind = 'node_completed'
        OFFSET 0
    ) AS steps CROSS JOIN LATERAL jsonb_array_elements(steps.calls) AS call
)
SELECT model, count(*) AS calls, sum(given)::bigint AS given, sum(made)::bigint AS made, sum(cached)::bigint AS cached
FROM calls
WHERE given + made > 0
GROUP BY model
ORDER BY sum(given + made) DESC, model
LIMIT %(most_models)s
