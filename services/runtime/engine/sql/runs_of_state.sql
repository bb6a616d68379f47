-- Those in a state that few runs are in: the list says so to the planner, as the index has it.
SELECT r.created_at, r.run_id FROM platform.runs AS r
WHERE r.state = %(state)s AND r.state IN ('AWAITING_INPUT', 'FAILED', 'CANCELLED', 'NEEDS_REVIEW')
    AND (r.created_at, r.run_id) < (%(before_created)s::timestamptz, %(before_run_id)s::uuid)
    AND r.created_at >= %(since)s::timestamptz AND r.created_at < %(until)s::timestamptz
ORDER BY r.created_at DESC, r.run_id DESC
