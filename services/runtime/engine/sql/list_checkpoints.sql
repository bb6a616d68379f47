SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, metadata
FROM platform.checkpoints AS c
WHERE (%(thread_id)s::text IS NULL OR thread_id = %(thread_id)s)
    AND (%(checkpoint_ns)s::text IS NULL OR checkpoint_ns = %(checkpoint_ns)s)
    AND (%(checkpoint_id)s::text IS NULL OR checkpoint_id = %(checkpoint_id)s)
    AND (%(before)s::text IS NULL OR coalesce((
        SELECT (c.ordinal, c.checkpoint_id) < (b.ordinal, b.checkpoint_id) FROM platform.checkpoints AS b
        WHERE b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.checkpoint_id = %(before)s
    ), checkpoint_id < %(before)s))
    AND metadata @> %(metadata)s::jsonb
ORDER BY ordinal DESC, checkpoint_id DESC
LIMIT %(limit)s
