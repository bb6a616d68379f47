-- In the place of `step_writes`: what the tasks of a step wrote, where there are several.
written AS (
    INSERT INTO platform.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(parent_checkpoint_id)s, w.task_id, w.idx, w.task_path, w.writes
    FROM fence, unnest(%(task_ids)s::text[], %(idxs)s::int[], %(task_paths)s::text[], %(writes)b::bytea[])
        AS w (task_id, idx, task_path, writes)
    ON CONFLICT DO NOTHING
)
