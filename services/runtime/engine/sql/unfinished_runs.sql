-- Runs that have not ended, a page of them, with the limits that they are pinned to.
SELECT run_id::text, agent, graph_version, p.limits
FROM platform.runs AS r LEFT JOIN platform.policies AS p USING (policy_id)
WHERE ended_at IS NULL AND run_id > %(after)s::uuid
ORDER BY r.run_id LIMIT %(limit)s
