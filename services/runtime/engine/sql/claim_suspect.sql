-- One run that is to be run alone.
WITH {pins.sql}, free AS (
    SELECT r.run_id FROM platform.runs AS r
    WHERE r.suspicion IN (1, 2) AND {claimable.sql}
    ORDER BY r.created_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE platform.runs
    SET state = 'RUNNING', owner = %(owner)s, graph_version = %(graphs)s::jsonb ->> agent, epoch = epoch + 1,
        policy_id = {pinned.sql}, claim_id = %(claim_id)s::uuid, idle_claims = idle_claims + 1,
        lease_expires_at = now() + make_interval(secs => %(lease_s)s),
        started_at = coalesce(started_at, now()), event_count = event_count + 1, not_before = NULL, waiting_for = ''
    FROM free
    WHERE runs.run_id = free.run_id
    RETURNING {runs.*}
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload)
    SELECT run_id, event_count, 'state_changed', '{"state": "RUNNING"}' FROM claimed
)
SELECT {claimed.*} FROM claimed
