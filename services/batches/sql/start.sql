-- The epoch goes up: whoever paced it before paces it by the rights that it had then.
UPDATE platform.batches SET state = 'RUNNING', epoch = epoch + 1, started_at = clock_timestamp(), ended_at = NULL,
    roles = %(roles)s, claims = %(claims)s::jsonb, lease_until = 'epoch', held_up_by = '',
    expires_at = clock_timestamp() + make_interval(secs => %(life_s)s)
WHERE batch_id = %(batch_id)s
