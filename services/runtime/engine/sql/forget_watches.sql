-- Those of replicas that are gone, or don't come round to renew their lease.
DELETE FROM platform.watches AS w
WHERE w.owner = %(leaving)s OR NOT EXISTS (
    SELECT 1 FROM platform.replicas AS p WHERE p.owner = w.owner AND p.lease_expires_at > now())
