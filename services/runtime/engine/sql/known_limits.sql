-- The recorded limits of agents, and those of these digests; whether a replica has them still.
SELECT agent, limits_digest, limits, is_recorded, seen_at > now() - make_interval(secs => %(gone_s)s)
FROM platform.limits_in_force
WHERE agent = ANY (%(agents)s) AND (is_recorded OR limits_digest = ANY (%(digests)s))
