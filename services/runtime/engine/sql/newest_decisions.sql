-- The newest decisions behind a place, by the primary key; no more of them than are asked for are read.
SELECT d.run_id, d.sequence, {decision_columns.sql} FROM platform.decisions AS d
WHERE d.run_id <= %(before_run_id)s::uuid AND d.run_id >= %(oldest_run_id)s::uuid
    AND (d.run_id, d.sequence) < (%(before_run_id)s::uuid, %(before_sequence)s)
ORDER BY d.run_id DESC, d.sequence DESC
LIMIT %(most)s
