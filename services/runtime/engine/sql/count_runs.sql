-- The newest runs of a time that are looked at, by interval, agent, state and outcome, and by interval alone: how many, how long
-- they took and waited, what they spent. Nothing counted is one row, which says how many were looked at.
WITH looked_at AS MATERIALIZED (
    SELECT entries.run_id FROM ({source}) AS entries LIMIT %(most)s
), fitting AS MATERIALIZED (
    SELECT r.agent, r.state, r.outcome, r.model_calls, r.tool_calls, r.input_tokens, r.output_tokens, r.begin_time, r.duration_s,
        r.wait_s
    FROM looked_at CROSS JOIN LATERAL (
        SELECT agent, state, outcome, model_calls, tool_calls, input_tokens, output_tokens,
            to_timestamp(floor(extract(epoch FROM created_at) / %(interval_s)s) * %(interval_s)s) AS begin_time,
            extract(epoch FROM ended_at - created_at)::float8 AS duration_s,
            extract(epoch FROM started_at - created_at)::float8 AS wait_s
        FROM platform.runs WHERE run_id = looked_at.run_id AND (%(agent)s::text IS NULL OR agent = %(agent)s)
        -- One by one: for a join of the two the planner may read every run there is.
        OFFSET 0
    ) AS r
), counted AS (
    SELECT begin_time, agent, state, outcome, grouping(agent) = 1 AS is_whole, count(*),
        percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY duration_s) AS duration_s,
        percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY wait_s) AS wait_s,
        sum(model_calls) AS model_calls, sum(tool_calls) AS tool_calls,
        sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
    FROM fitting
    GROUP BY GROUPING SETS ((begin_time, agent, state, outcome), (begin_time))
)
SELECT looked.count AS looked_at, counted.begin_time, counted.agent, counted.state, counted.outcome, counted.is_whole,
    counted.count, counted.duration_s, counted.wait_s, counted.model_calls, counted.tool_calls, counted.input_tokens,
    counted.output_tokens
FROM (SELECT count(*) FROM looked_at) AS looked
LEFT JOIN counted ON true
ORDER BY begin_time DESC, agent, state, outcome
