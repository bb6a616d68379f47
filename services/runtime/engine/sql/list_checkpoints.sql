SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, metadata
FROM checkpoints
WHERE (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
    AND (%(checkpoint_ns)s::text IS NULL OR checkpoint_ns = %(checkpoint_ns)s)
    AND (%(checkpoint_id)s::text IS NULL OR checkpoint_id = %(checkpoint_id)s)
    AND (%(before)s::text IS NULL OR checkpoint_id < %(before)s)
    AND metadata @> %(metadata)s::jsonb
ORDER BY checkpoint_id DESC
LIMIT %(limit)s
