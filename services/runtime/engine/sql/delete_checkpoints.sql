DELETE FROM platform.checkpoints
WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s AND checkpoint_id = ANY (%(checkpoint_ids)s)
