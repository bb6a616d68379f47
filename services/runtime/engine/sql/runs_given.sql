-- Of some runs those behind a place, the newest first.
SELECT r.created_at, r.run_id FROM platform.runs AS r
WHERE r.run_id = ANY (%(run_ids)s::uuid[])
    AND (r.created_at, r.run_id) < (%(before_created)s::timestamptz, %(before_run_id)s::uuid)
    AND r.created_at >= %(since)s::timestamptz AND r.created_at < %(until)s::timestamptz
ORDER BY r.created_at DESC, r.run_id DESC
