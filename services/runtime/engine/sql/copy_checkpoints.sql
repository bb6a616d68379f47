INSERT INTO platform.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata,
    ordinal)
SELECT %(target)s, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata, ordinal
FROM platform.checkpoints WHERE thread_id = %(source)s
