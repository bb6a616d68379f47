-- The size of what a run has recorded, which is known without its content.
SELECT coalesce(sum(octet_length(answer)), 0) FROM platform.recorded_answers WHERE run_id = %(run_id)s
