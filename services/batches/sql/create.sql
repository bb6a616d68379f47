INSERT INTO platform.batches (batch_id, subject, roles, claims, request_id, name, max_runs, expires_at)
VALUES (%(batch_id)s, %(subject)s, %(roles)s, %(claims)s::jsonb, %(request_id)s, %(name)s, %(max_runs)s,
    clock_timestamp() + make_interval(secs => %(life_s)s))
RETURNING *
