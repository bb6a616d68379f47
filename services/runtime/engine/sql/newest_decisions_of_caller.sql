-- The newest decisions of a caller's runs behind a place. A run without any is one row: a page looks at no more runs
-- than rows, and goes on behind them.
SELECT chosen.run_id, coalesce(d.sequence, 0) AS sequence, {decision_columns.sql} FROM (
    SELECT r.run_id FROM platform.runs AS r
    WHERE r.subject = %(subject)s AND r.run_id <= %(before_run_id)s::uuid AND r.run_id >= %(oldest_run_id)s::uuid
    ORDER BY r.run_id DESC
    LIMIT %(most)s
) AS chosen
LEFT JOIN LATERAL (
    SELECT d.run_id, d.sequence, {decision_columns.sql} FROM platform.decisions AS d
    WHERE d.run_id = chosen.run_id AND (d.run_id, d.sequence) < (%(before_run_id)s::uuid, %(before_sequence)s)
    ORDER BY d.sequence DESC
) AS d ON true
ORDER BY chosen.run_id DESC, d.sequence DESC
LIMIT %(most)s
