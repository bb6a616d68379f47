-- Frees the runs of replicas that are gone: their liveness lock is free, or they let their lease run out. The release
-- before this one has no leases but those of its runs. Whoever sweeps is not gone, whatever became of its own lock and
-- lease: it knows what it executes, and lets go of the rest itself.
WITH alive AS (
    SELECT (classid::bigint << 32) | objid::bigint AS key
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), orphans AS (
    SELECT r.run_id, r.epoch, r.lease_expires_at
    FROM platform.runs AS r LEFT JOIN platform.replicas AS p ON p.owner = r.owner
    WHERE r.state = 'RUNNING' AND r.owner IS DISTINCT FROM %(owner)s
        AND (coalesce(p.lease_expires_at, r.lease_expires_at) < now()
        OR hashtextextended(r.owner, 0) NOT IN (SELECT key FROM alive))
), free AS (
    -- Unless it has been claimed anew, or its lease renewed, since it was looked at.
    SELECT r.run_id FROM platform.runs AS r JOIN orphans AS o USING (run_id)
    WHERE r.state = 'RUNNING' AND r.epoch = o.epoch AND r.lease_expires_at = o.lease_expires_at
    FOR UPDATE OF r SKIP LOCKED
), taken AS (
    -- One that is to be cancelled ends here, rather than begin anew elsewhere.
    UPDATE platform.runs
    SET state = CASE WHEN cancel_requested THEN 'CANCELLED' ELSE 'PENDING' END, owner = NULL, lease_expires_at = NULL,
        suspicion = CASE WHEN suspicion >= 2 THEN 3 WHEN idle_claims >= %(suspect_after)s THEN 1 ELSE suspicion END,
        stop_reason = CASE WHEN cancel_requested THEN 'cancelled' ELSE stop_reason END,
        outcome = CASE WHEN cancel_requested THEN 'cancelled' ELSE outcome END,
        ended_at = CASE WHEN cancel_requested THEN now() END,
        event_count = event_count + cancel_requested::int
    FROM free WHERE runs.run_id = free.run_id
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind)
    SELECT run_id, event_count, 'run_ended' FROM taken WHERE state = 'CANCELLED'
)
SELECT found.orphans, {taken.*} FROM (SELECT count(*) AS orphans FROM orphans) AS found LEFT JOIN taken ON true
