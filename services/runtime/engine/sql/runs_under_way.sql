-- Those that wait for a replica or are executed. They are few, and have an index, which is in another order.
SELECT r.created_at, r.run_id FROM (
    SELECT u.created_at, u.run_id FROM platform.runs AS u
    WHERE u.state IN ('PENDING', 'RUNNING') AND u.state = %(state)s
    OFFSET 0
) AS r
WHERE (r.created_at, r.run_id) < (%(before_created)s::timestamptz, %(before_run_id)s::uuid)
    AND r.created_at >= %(since)s::timestamptz AND r.created_at < %(until)s::timestamptz
ORDER BY r.created_at DESC, r.run_id DESC
