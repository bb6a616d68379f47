-- This one, which leaves, or those that left long ago without a word; their runs were taken over.
DELETE FROM platform.replicas WHERE owner = %(leaving)s OR lease_expires_at < now() - interval '1 hour'
