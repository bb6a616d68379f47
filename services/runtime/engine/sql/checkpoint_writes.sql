SELECT checkpoint_id, task_id, task_path, writes
FROM platform.checkpoint_writes
WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s AND checkpoint_id = ANY (%(checkpoint_ids)s)
ORDER BY task_path, task_id, idx
