SELECT run_id::text, agent FROM runs
WHERE pruned = ANY (%(from_stages)s) AND ended_at < now() - make_interval(secs => %(age_s)s)
    AND (agent = %(agent)s OR (%(agent)s::text IS NULL AND agent <> ALL (%(others)s)))
ORDER BY ended_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
