UPDATE platform.checkpoints
SET changes = %(changes)b,
    parent_checkpoint_id = CASE WHEN parent_checkpoint_id = ANY (%(gone)s) THEN NULL ELSE parent_checkpoint_id END
WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s AND checkpoint_id = %(checkpoint_id)s
