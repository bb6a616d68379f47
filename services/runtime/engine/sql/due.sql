-- What there is any reason to look at more closely; each part is a look into an index of its own, nearly always an empty one.
SELECT EXISTS (SELECT FROM platform.runs WHERE state = 'PENDING') AS pending,
    EXISTS (SELECT FROM platform.runs WHERE state = 'PENDING' AND suspicion > 0) AS suspects,
    EXISTS (SELECT FROM platform.runs WHERE state = 'RUNNING') AS running,
    EXISTS (SELECT FROM platform.runs WHERE state = 'AWAITING_INPUT' AND expires_at < now())
        OR EXISTS (SELECT FROM platform.runs WHERE state = 'AWAITING_INPUT' AND expires_at IS NULL) AS overdue
