SELECT result_type, result FROM platform.effects
WHERE run_id = %(run_id)s AND operation = %(operation)s AND ended_at IS NOT NULL
