SELECT state, count(*) AS count FROM platform.batch_items
WHERE batch_id = %(batch_id)s AND ended_as > %(after)s AND ended_as <= %(until)s GROUP BY state
