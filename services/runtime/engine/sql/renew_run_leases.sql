-- For the release before this one, which goes by the leases of runs; this one goes by those of replicas.
UPDATE platform.runs SET lease_expires_at = now() + make_interval(secs => %(lease_s)s)
WHERE owner = %(owner)s AND state = 'RUNNING' AND run_id = ANY (%(executing)s::uuid[])
