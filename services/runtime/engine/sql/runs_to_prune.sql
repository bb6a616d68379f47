-- Those that are due for this stage, and not for the next: what that removes need not be tidied up first.
SELECT run_id::text, agent, extract(epoch FROM now() - ended_at)::float8 FROM platform.runs
WHERE pruned = ANY (%(from_stages)s) AND ended_at < now() - make_interval(secs => %(age_s)s)
    AND (%(next_age_s)s::double precision IS NULL OR ended_at >= now() - make_interval(secs => %(next_age_s)s))
    AND (agent = %(agent)s OR (%(agent)s::text IS NULL AND agent <> ALL (%(others)s)))
ORDER BY ended_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
