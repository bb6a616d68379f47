-- Frees the runs of replicas that are gone: their liveness lock is free, or they let their lease run out. Also those of
-- this replica that it does not execute, long after their claim: it never got the answer to the claim.
WITH alive AS (
    SELECT (classid::bigint << 32) | objid::bigint AS key
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), orphans AS (
    SELECT run_id, epoch, lease_expires_at FROM runs
    WHERE state = 'RUNNING'
        AND (lease_expires_at < now() OR hashtextextended(owner, 0) NOT IN (SELECT key FROM alive)
            OR (owner = %(owner)s AND run_id <> ALL (%(executing)s::uuid[])
                AND lease_expires_at < now() + make_interval(secs => %(lease_s)s - %(stray_after_s)s)))
), free AS (
    -- Unless it has been claimed anew, or its lease renewed, since it was looked at.
    SELECT r.run_id FROM runs AS r JOIN orphans AS o USING (run_id)
    WHERE r.state = 'RUNNING' AND r.epoch = o.epoch AND r.lease_expires_at = o.lease_expires_at
    FOR UPDATE OF r SKIP LOCKED
), taken AS (
    -- One that is to be cancelled ends here, rather than begin anew elsewhere.
    UPDATE runs
    SET state = CASE WHEN cancel_requested THEN 'CANCELLED' ELSE 'PENDING' END, owner = NULL, lease_expires_at = NULL,
        stop_reason = CASE WHEN cancel_requested THEN 'cancelled' ELSE stop_reason END,
        ended_at = CASE WHEN cancel_requested THEN now() END,
        event_count = event_count + cancel_requested::int
    FROM free WHERE runs.run_id = free.run_id
    RETURNING runs.*
), happened AS (
    INSERT INTO run_events (run_id, sequence, kind)
    SELECT run_id, event_count, 'run_ended' FROM taken WHERE state = 'CANCELLED'
)
SELECT found.orphans, taken.* FROM (SELECT count(*) AS orphans FROM orphans) AS found LEFT JOIN taken ON true
