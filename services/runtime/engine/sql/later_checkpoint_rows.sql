-- The rows of a thread behind one, and of two that are known the fact that they are still there.
SELECT checkpoint_id, parent_checkpoint_id, ordinal,
    CASE WHEN known THEN NULL ELSE body END AS body,
    CASE WHEN known THEN NULL ELSE changes END AS changes,
    CASE WHEN known THEN NULL ELSE metadata END AS metadata,
    known
FROM platform.checkpoints, LATERAL (SELECT checkpoint_id = ANY (%(ends)s::text[]) AS known) AS ends
WHERE thread_id = %(thread_id)s AND checkpoint_ns = %(checkpoint_ns)s
    AND (known OR (ordinal, checkpoint_id) > (%(ordinal)s, %(checkpoint_id)s))
ORDER BY ordinal, checkpoint_id
