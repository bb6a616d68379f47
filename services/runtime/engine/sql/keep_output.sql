-- Of a run that ended without: nothing else of it changes, and once there it stays.
UPDATE platform.runs SET output = %(output)s WHERE run_id = %(run_id)s AND output IS NULL AND ended_at IS NOT NULL
