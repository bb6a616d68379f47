INSERT INTO platform.limit_changes (agent, limits, policy_version, graph_version, release, revision, changed_by, reason)
VALUES (%(agent)s, %(limits)s::jsonb, %(policy_version)s, %(graph_version)s, %(release)s, %(revision)s, %(changed_by)s,
    %(reason)s)
