-- Those that are due for this stage, and not for the next: what that removes need not be tidied up first. Of each agent and
-- each stage the oldest are read, and no more of them than are asked for; agents are walked from one to the next by index. What has to be
-- read for it, another pool's types are in: that is left to its own replicas.
WITH RECURSIVE known AS (
    SELECT min(first.agent) AS agent FROM platform.runs AS first
    UNION ALL
    SELECT (SELECT min(next.agent) FROM platform.runs AS next WHERE next.agent > known.agent)
    FROM known WHERE known.agent IS NOT NULL
)
SELECT due.run_id::text, due.agent, extract(epoch FROM now() - due.ended_at)::float8
FROM known CROSS JOIN unnest(%(from_stages)s::smallint[]) AS stage (number) CROSS JOIN LATERAL (
    SELECT r.run_id, r.agent, r.ended_at FROM platform.runs AS r
    WHERE r.agent = known.agent AND r.pruned = stage.number AND r.ended_at < now() - make_interval(secs => %(age_s)s)
        AND (%(next_age_s)s::double precision IS NULL OR r.ended_at >= now() - make_interval(secs => %(next_age_s)s))
    ORDER BY r.ended_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS due
WHERE (known.agent = %(agent)s OR (%(agent)s::text IS NULL AND known.agent <> ALL (%(others)s)))
    AND NOT (%(is_read)s AND EXISTS (SELECT FROM platform.agents AS a WHERE a.name = due.agent AND a.pool <> %(pool)s))
ORDER BY due.ended_at
LIMIT %(limit)s
