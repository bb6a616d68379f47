-- What a step adds, for statements whose `fence` has the run's agent, and where its events and decisions begin.
checkpoint AS (
    INSERT INTO platform.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata)
    SELECT %(thread_id)s, %(checkpoint_ns)s, %(checkpoint_id)s, %(parent_checkpoint_id)s,
        %(body)b::bytea, %(changes)b::bytea, %(metadata)s::jsonb
    FROM fence
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET body = excluded.body, changes = excluded.changes, metadata = excluded.metadata
), {step_writes.sql}, {step_ledger.sql}
