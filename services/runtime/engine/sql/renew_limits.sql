-- Says that a replica has these limits in force. Returns, of each agent, whether they are those recorded, and when it had its
-- last change. Of many replicas one writes.
WITH given AS (
    SELECT agent, limits_digest FROM unnest(%(agents)s::text[], %(digests)s::text[]) AS g (agent, limits_digest)
), renewed AS (
    UPDATE platform.limits_in_force AS l SET seen_at = now() FROM given AS g
    WHERE (l.agent, l.limits_digest) = (g.agent, g.limits_digest) AND l.seen_at < now() - make_interval(secs => %(renew_s)s)
)
SELECT g.agent, coalesce(l.is_recorded, false), (
        SELECT extract(epoch FROM c.changed_at)::double precision FROM platform.limit_changes AS c
        WHERE c.agent = g.agent AND c.limits <> '[]' ORDER BY c.change_id DESC LIMIT 1)
FROM given AS g LEFT JOIN platform.limits_in_force AS l USING (agent, limits_digest)
