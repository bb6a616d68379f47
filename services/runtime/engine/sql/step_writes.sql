-- What the one task of a step wrote, where it wrote anything, for statements that have a `fence`.
written AS (
    INSERT INTO platform.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(parent_checkpoint_id)s, %(task_id)s, %(idx)s, %(task_path)s,
        %(writes)b::bytea
    FROM fence
    WHERE %(task_id)s::text IS NOT NULL
    ON CONFLICT DO NOTHING
)
