SELECT run_id::text FROM platform.runs AS r
WHERE subject = %(subject)s AND thread_id = %(thread_id)s AND ended_at IS NOT NULL AND rolled_back_by IS NULL
    AND (created_at, run_id) <= (%(created_at)s, %(run_id)s::uuid) AND (%(inclusive)s OR run_id <> %(run_id)s::uuid)
ORDER BY r.created_at, r.run_id
