-- A batch whose time is over acts for its caller no longer; one that has ended is nobody's to pace. Nothing is written while nothing
-- is new and three quarters of the lease are left.
WITH held AS (
    UPDATE platform.batches AS batch SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s),
        pace = %(pace)s, held_up_by = %(held_up_by)s, counted_since = started_at,
        (counted, counted_as) = (SELECT counts, last FROM platform.batch_ends(batch)),
        state = CASE WHEN expires_at < clock_timestamp() THEN 'CANCELLING' ELSE state END
    WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state IN ('RUNNING', 'CANCELLING') AND (
        lease_until < clock_timestamp() + make_interval(secs => 0.75 * %(lease_s)s)
        OR pace <> %(pace)s OR held_up_by <> %(held_up_by)s OR state = 'RUNNING' AND expires_at < clock_timestamp()
    ) RETURNING state
)
SELECT state FROM held
UNION ALL
SELECT state FROM platform.batches
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state IN ('RUNNING', 'CANCELLING') AND NOT EXISTS (SELECT FROM held)
