-- A graph inside a node notes the checkpoint of the graph around it that it began on.
SELECT DISTINCT checkpoint_ns FROM platform.checkpoints
WHERE thread_id = %(thread_id)s AND checkpoint_ns <> '' AND metadata -> 'parents' ->> '' = %(checkpoint_id)s
ORDER BY checkpoint_ns
