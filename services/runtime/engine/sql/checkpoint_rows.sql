SELECT checkpoint_id, parent_checkpoint_id, ordinal, body, changes, metadata
FROM platform.checkpoints
WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s
ORDER BY ordinal, checkpoint_id
