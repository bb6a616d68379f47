UPDATE platform.runs SET suspicion = 2
WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND claim_id = %(claim_id)s::uuid AND state = 'RUNNING'
RETURNING {runs.*}
