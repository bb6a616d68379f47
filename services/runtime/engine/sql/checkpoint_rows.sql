SELECT checkpoint_id, parent_checkpoint_id, body, changes, metadata
FROM checkpoints
WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s
ORDER BY checkpoint_id
