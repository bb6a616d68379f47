INSERT INTO platform.limits_in_force (agent, limits_digest, limits)
SELECT agent, limits_digest, limits FROM jsonb_to_recordset(%(given)s::jsonb) AS g (agent text, limits_digest text, limits jsonb)
ON CONFLICT (agent, limits_digest) DO UPDATE SET seen_at = now()
