UPDATE runs SET state = 'PENDING', owner = NULL, lease_expires_at = NULL
WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND state = 'RUNNING'
