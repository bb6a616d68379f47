SELECT run_id::text FROM runs WHERE owner = %(owner)s AND state = 'RUNNING' AND cancel_requested
