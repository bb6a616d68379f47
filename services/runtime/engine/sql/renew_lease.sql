INSERT INTO platform.replicas (owner, lease_expires_at) VALUES (%(owner)s, now() + make_interval(secs => %(lease_s)s))
ON CONFLICT (owner) DO UPDATE SET lease_expires_at = excluded.lease_expires_at
