SELECT 1 FROM platform.decisions WHERE run_id = %(run_id)s AND router = %(router)s LIMIT 1
