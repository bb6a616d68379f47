SELECT number, input, given, rule, truth, retry_count, run_id FROM platform.batch_items
WHERE batch_id = %(batch_id)s AND state = 'RUNNING' ORDER BY number
