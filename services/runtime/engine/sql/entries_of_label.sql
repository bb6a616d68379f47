-- Of a label that is `wanted`, the entries behind a place, the newest first.
SELECT e.created_at, e.run_id FROM platform.run_labels AS e
WHERE e.label = wanted.label
    AND (e.created_at, e.run_id) < (%(before_created)s::timestamptz, %(before_run_id)s::uuid)
    AND e.created_at >= %(since)s::timestamptz AND e.created_at < %(until)s::timestamptz
ORDER BY e.created_at DESC, e.run_id DESC
