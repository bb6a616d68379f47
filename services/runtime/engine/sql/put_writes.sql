-- Writes of tasks ahead of their step's checkpoint. Special writes (negative idx) replace, the others are first come.
WITH fence AS (
    SELECT 1 FROM platform.runs
    WHERE {claim_holds.sql}
    FOR SHARE
), written AS (
    INSERT INTO platform.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(checkpoint_id)s, w.task_id, w.idx, w.task_path, w.writes
    FROM unnest(%(task_ids)s::text[], %(idxs)s::int[], %(task_paths)s::text[], %(writes)b::bytea[])
        AS w (task_id, idx, task_path, writes)
    WHERE %(run_id)s::uuid IS NULL OR EXISTS (SELECT 1 FROM fence)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    DO UPDATE SET writes = excluded.writes, task_path = excluded.task_path WHERE checkpoint_writes.idx < 0
)
SELECT %(run_id)s::uuid IS NULL OR EXISTS (SELECT 1 FROM fence)
