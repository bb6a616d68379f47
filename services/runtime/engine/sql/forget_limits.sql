-- What no replica has had for long, unless it is what an agent's last change led to.
DELETE FROM platform.limits_in_force AS l
WHERE l.seen_at < now() - interval '7 days'
    AND NOT (l.is_recorded AND EXISTS (SELECT 1 FROM platform.limit_changes AS c WHERE c.agent = l.agent))
