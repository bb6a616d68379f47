-- Whether a claim on a run still holds. The state is no plain column here, so that only the key leads to the run: while a
-- database is new, the planner takes a partial index of runs under way for as good, and reads each of them at every step.
run_id = %(run_id)s AND epoch = %(epoch)s AND claim_id = %(claim_id)s::uuid AND state || '' = 'RUNNING'
