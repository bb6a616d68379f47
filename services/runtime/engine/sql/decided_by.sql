-- What was decided by which table and limits: how many decisions, and how many of them by no table, as their node
-- failed or was broken off.
SELECT router, policy_version, count(*), count(*) FILTER (WHERE rule = ANY (%(before_tables)s)) FROM platform.decisions
WHERE %(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz
GROUP BY router, policy_version
