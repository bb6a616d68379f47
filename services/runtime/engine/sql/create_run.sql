-- Created claimed when an owner is given, else pending, and waiting when that which has its agent is away; not at all when it would break a quota of its caller.
-- The clock is read here and not at the transaction's begin, so that runs of a thread are in the order of its lock.
WITH {pins.sql}, refused AS MATERIALIZED (
    SELECT quota, retry_after_s FROM platform.broken_quota(%(subject)s, %(most_at_once)s, %(most_per_minute)s,
        %(most_tokens)s, %(most_waiting)s)
), created AS (
    INSERT INTO platform.runs (run_id, agent, graph_version, subject, roles, claims, thread_id, request_id, correlation_id,
        input, budget, labels, title, recorded, callback_events, traceparent, state, owner, epoch, claim_id, lease_expires_at, created_at, started_at, event_count, policy_id,
        waiting_for, not_before)
    SELECT %(run_id)s, %(agent)s, %(graph_version)s, %(subject)s, %(roles)s, %(claims)s::jsonb, %(thread_id)s, %(request_id)s,
        %(correlation_id)s, %(input)s, %(budget)s::jsonb, %(labels)s::jsonb, %(title)s, %(recorded)s, %(callback_events)s, %(traceparent)s,
        CASE WHEN o.owner IS NULL THEN 'PENDING' ELSE 'RUNNING' END, o.owner,
        CASE WHEN o.owner IS NULL THEN 0 ELSE 1 END,
        CASE WHEN o.owner IS NULL THEN NULL ELSE %(claim_id)s::uuid END,
        CASE WHEN o.owner IS NULL THEN NULL ELSE o.time + make_interval(secs => %(lease_s)s) END,
        o.time,
        CASE WHEN o.owner IS NULL THEN NULL ELSE o.time END,
        CASE WHEN o.owner IS NULL AND o.waiting_for = '' THEN 0 ELSE 1 END,
        CASE WHEN o.owner IS NOT NULL THEN (
            SELECT policy_id FROM pins WHERE agent = %(agent)s AND NOT built_in
        ) END,
        o.waiting_for,
        CASE WHEN o.waiting_for <> '' THEN o.time END
    FROM (SELECT %(owner)s::text AS owner, clock_timestamp() AS time, %(waiting_for)s::text AS waiting_for) AS o
    WHERE NOT EXISTS (SELECT 1 FROM refused)
    ON CONFLICT (subject, request_id) WHERE request_id IS NOT NULL DO NOTHING
    RETURNING {runs.*}, owner
), happened AS (
    INSERT INTO platform.run_events (run_id, sequence, kind, payload, created_at)
    SELECT run_id, 1, 'state_changed', CASE WHEN waiting_for = '' THEN '{"state": "RUNNING"}'::jsonb ELSE jsonb_build_object(
        'state', state, 'waiting_for', waiting_for, 'cause', 'NOT_SEEN', 'not_before', not_before) END, created_at
    FROM created WHERE event_count > 0
), asked AS (
    -- Whoever claims it is to know from the beginning that its chunks are asked for.
    INSERT INTO platform.watches (run_id, owner, chunks)
    SELECT run_id, %(asked_by)s, true FROM created WHERE created.owner IS NULL AND %(asked_by)s::text IS NOT NULL
), labelled AS (
    INSERT INTO platform.run_labels (run_id, label, subject, created_at)
    SELECT run_id, l.key || '=' || l.value, subject, created_at FROM created, jsonb_each_text(labels) AS l
), found_by AS (
    INSERT INTO platform.run_words (run_id, words)
    SELECT r.run_id, array_to_tsvector({words_of_run.sql}) FROM created AS r WHERE r.title <> '' OR r.labels <> '{}'
)
SELECT refused.quota, refused.retry_after_s, {created.*} FROM created FULL JOIN refused ON false
