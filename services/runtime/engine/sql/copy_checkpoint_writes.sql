INSERT INTO platform.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes)
SELECT %(target)s, checkpoint_ns, checkpoint_id, task_id, idx, task_path, writes
FROM platform.checkpoint_writes WHERE thread_id = %(source)s
