SELECT change_id, agent, changed_at, limits, policy_version, graph_version, release, revision, changed_by, reason
FROM platform.limit_changes
WHERE (%(agent)s::text IS NULL OR agent = %(agent)s) AND (%(before)s = 0 OR change_id < %(before)s)
ORDER BY change_id DESC
LIMIT %(limit)s
