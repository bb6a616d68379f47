-- Has a run keep what callbacks tell, from the next claim on.
UPDATE platform.runs SET callback_events = true WHERE run_id = %(run_id)s AND ended_at IS NULL AND NOT callback_events
