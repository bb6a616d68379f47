SELECT rule, truth, verdict, count(*) AS count FROM platform.batch_items
WHERE batch_id = %(batch_id)s AND truth IS NOT NULL AND verdict IS NOT NULL GROUP BY rule, truth, verdict
