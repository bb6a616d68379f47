-- What runs spent after one of their decisions each. Nodes that no router follows are in the events, while those are kept.
SELECT given.run_id::text,
    coalesce(sum(calls.model_calls), 0)::bigint, coalesce(sum(calls.tool_calls), 0)::bigint,
    coalesce(sum(calls.input_tokens), 0)::bigint, coalesce(sum(calls.output_tokens), 0)::bigint,
    coalesce(sum(step.elapsed_ms), 0) / 1000
FROM unnest(%(run_ids)s::uuid[], %(sequences)s::bigint[]) AS given (run_id, sequence)
LEFT JOIN LATERAL (
    SELECT d.node_elapsed_ms AS elapsed_ms, d.calls FROM platform.decisions AS d
    WHERE d.run_id = given.run_id AND d.sequence > given.sequence
    UNION ALL
    SELECT (e.payload ->> 'elapsed_ms')::double precision, e.payload -> 'calls'
    FROM platform.run_events AS e
    JOIN platform.run_events AS decided ON decided.run_id = e.run_id AND decided.decision_sequence = given.sequence
    WHERE e.run_id = given.run_id AND e.kind = 'node_completed' AND e.sequence > decided.sequence
) AS step ON true
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE c.kind = 'model') AS model_calls, count(*) FILTER (WHERE c.kind = 'tool') AS tool_calls,
        sum(c.input_tokens) AS input_tokens, sum(c.output_tokens) AS output_tokens
    FROM jsonb_to_recordset(step.calls) AS c (kind text, input_tokens bigint, output_tokens bigint)
) AS calls ON true
GROUP BY given.run_id
