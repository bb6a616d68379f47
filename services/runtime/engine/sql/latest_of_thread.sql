-- The run of an agent that left a thread's state as it is: the latest before a run that has begun. What was made with more
-- rights than the run has is not for it to read.
SELECT run_id::text, graph_version, pruned >= %(without_checkpoints)s AS is_gone
FROM platform.runs AS r
WHERE r.subject = %(subject)s AND r.thread_id = %(thread_id)s AND r.agent = %(agent)s AND r.ended_at IS NOT NULL
    AND r.rolled_back_by IS NULL
    AND (r.created_at, r.run_id) < (%(created_at)s, %(run_id)s::uuid) AND r.roles <@ %(roles)s::text[]
    AND (r.pruned >= %(without_checkpoints)s AND r.started_at IS NOT NULL
        OR EXISTS (SELECT FROM platform.checkpoints AS c WHERE c.thread_id = r.run_id::text))
ORDER BY r.created_at DESC, r.run_id DESC
LIMIT 1
