-- A decision of an agent at or behind the edge that is of the time asked for. Of each rule the first decisions of that time
-- are read, one more than were looked at, so that one of them is older where there is any.
SELECT FROM ({rules_of_agent.sql}) AS chosen
CROSS JOIN LATERAL (
    SELECT d.run_id, d.sequence, d.agent FROM platform.decisions AS d
    WHERE d.router = chosen.router AND d.rule = chosen.rule AND d.decided_at >= %(since)s::timestamptz
        AND d.run_id >= %(oldest_run_id)s::uuid
    ORDER BY d.decided_at
    LIMIT %(most)s
) AS d
WHERE d.agent = %(agent)s AND (d.run_id, d.sequence) <= (edge.run_id, edge.sequence)
