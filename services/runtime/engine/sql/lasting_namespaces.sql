-- Those of graphs inside nodes that keep their state from call to call; others have the id of a task in theirs.
SELECT DISTINCT checkpoint_ns FROM platform.checkpoints
WHERE thread_id = %(thread_id)s AND checkpoint_ns <> '' AND strpos(checkpoint_ns, ':') = 0
ORDER BY checkpoint_ns
