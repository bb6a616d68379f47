INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata)
SELECT %(target)s, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata
FROM checkpoints WHERE thread_id = %(source)s
