-- Frees the runs of replicas that are gone: their liveness lock is free, or they let their lease run out.
WITH alive AS (
    SELECT (classid::bigint << 32) | objid::bigint AS key
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), orphans AS (
    SELECT run_id FROM runs
    WHERE state = 'RUNNING'
        AND (lease_expires_at < now() OR hashtextextended(owner, 0) NOT IN (SELECT key FROM alive))
    FOR UPDATE SKIP LOCKED
)
UPDATE runs SET state = 'PENDING', owner = NULL, lease_expires_at = NULL
FROM orphans WHERE runs.run_id = orphans.run_id
RETURNING runs.run_id::text
