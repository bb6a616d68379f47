-- A batch whose time is over acts for its caller no longer; one that has ended is nobody's to pace.
UPDATE platform.batches SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s),
    pace = %(pace)s, held_up_by = %(held_up_by)s,
    state = CASE WHEN expires_at < clock_timestamp() THEN 'CANCELLING' ELSE state END
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state IN ('RUNNING', 'CANCELLING') RETURNING state
