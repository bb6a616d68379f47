SELECT d.* FROM decisions AS d
WHERE d.run_id = %(run_id)s AND d.sequence > %(after)s
ORDER BY d.sequence
LIMIT %(limit)s
