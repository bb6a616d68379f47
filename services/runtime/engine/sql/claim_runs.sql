-- Callers take turns, from the one after whom the last claim ended, and once around: `callers` walks from one to the next
-- by index, however many runs each has waiting, and no farther than it must. All of them get the same share of the room.
WITH RECURSIVE {pins.sql}, callers AS (
    SELECT %(after)s::text AS subject, false AS around, 0 AS place
    UNION ALL
    SELECT following.subject, following.around, callers.place + 1
    FROM callers CROSS JOIN LATERAL (
        (SELECT r.subject, callers.around FROM platform.runs AS r
         WHERE r.state = 'PENDING' AND r.subject > callers.subject AND (NOT callers.around OR r.subject <= %(after)s)
         ORDER BY r.subject LIMIT 1)
        UNION ALL
        (SELECT r.subject, true FROM platform.runs AS r
         WHERE NOT callers.around AND r.state = 'PENDING' AND r.subject <= %(after)s
         ORDER BY r.subject LIMIT 1)
        LIMIT 1
    ) AS following
    WHERE callers.place < %(most_callers)s
), share AS (
    SELECT greatest(%(limit)s / greatest(count(*), 1), 1) AS size
    FROM (SELECT FROM callers WHERE place > 0 LIMIT %(limit)s) AS waiting
), candidates AS MATERIALIZED (
    SELECT turn.run_id, callers.subject, callers.place
    FROM callers CROSS JOIN LATERAL (
        SELECT r.run_id FROM platform.runs AS r
        WHERE r.subject = callers.subject AND r.suspicion = 0 AND {claimable.sql}
        ORDER BY coalesce(r.not_before, r.created_at), r.run_id
        LIMIT (SELECT size FROM share)
    ) AS turn
    WHERE callers.place > 0
    LIMIT %(limit)s
), free AS (
    SELECT run_id FROM platform.runs
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM candidates)) AND state = 'PENDING'
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
SELECT
    (SELECT count(*) FROM candidates) AS candidate_count,
    coalesce((SELECT subject FROM candidates ORDER BY place DESC LIMIT 1),
        (SELECT subject FROM callers ORDER BY place DESC LIMIT 1)) AS last_caller,
    EXISTS (SELECT FROM platform.watches AS w WHERE w.run_id = claimed.run_id AND w.chunks) AS chunks_asked,
    {claimed.*}
FROM (SELECT) AS one LEFT JOIN claimed ON true
