-- What is due, by kind and agent. A policy without an agent is that of all `others`; an age of NULL is for ever.
WITH policy AS (
    SELECT agent, others, history_s, checkpoints_s, events_s, runs_s, oldest_kept, decided_until
    FROM jsonb_to_recordset(%(policies)s::jsonb) AS p (agent text, others text[], history_s double precision,
        checkpoints_s double precision, events_s double precision, runs_s double precision, oldest_kept uuid,
        decided_until timestamptz)
), due AS (
    SELECT r.run_id, r.agent, r.pruned, pg_column_size(r.input) + coalesce(pg_column_size(r.output), 0) + 300 AS size,
        r.ended_at < now() - make_interval(secs => p.history_s) AS history,
        coalesce(r.ended_at < now() - make_interval(secs => p.checkpoints_s), false) AS checkpoints,
        coalesce(r.ended_at < now() - make_interval(secs => p.events_s), false) AS events,
        coalesce(r.ended_at < now() - make_interval(secs => p.runs_s), false) AS runs
    FROM platform.runs AS r
    JOIN policy AS p ON r.agent = p.agent OR (p.agent IS NULL AND r.agent <> ALL (p.others))
    WHERE r.ended_at IS NOT NULL
), stored AS (
    SELECT thread_id, pg_column_size(body) + pg_column_size(changes) + pg_column_size(metadata) AS size, EXISTS (
            SELECT 1 FROM platform.checkpoints AS later
            WHERE later.thread_id = c.thread_id AND later.checkpoint_ns = c.checkpoint_ns
                AND (later.ordinal, later.checkpoint_id) > (c.ordinal, c.checkpoint_id)
        ) AS older
    FROM platform.checkpoints AS c
    UNION ALL
    SELECT w.thread_id, pg_column_size(w.writes), EXISTS (
            SELECT 1 FROM platform.checkpoints AS later
            WHERE later.thread_id = w.thread_id AND later.checkpoint_ns = w.checkpoint_ns
                AND (later.ordinal, later.checkpoint_id) > (c.ordinal, c.checkpoint_id)
        )
    FROM platform.checkpoint_writes AS w
    JOIN platform.checkpoints AS c USING (thread_id, checkpoint_ns, checkpoint_id)
)
SELECT 'history' AS kind, d.agent, count(*), sum(s.size)
FROM due AS d JOIN stored AS s ON s.thread_id = d.run_id::text
WHERE d.history AND NOT d.checkpoints AND d.pruned < 1 AND s.older
GROUP BY d.agent
UNION ALL
SELECT 'checkpoints', d.agent, count(*), sum(s.size)
FROM due AS d JOIN stored AS s ON s.thread_id = d.run_id::text
WHERE d.checkpoints AND d.pruned < 2
GROUP BY d.agent
UNION ALL
SELECT 'events', d.agent, count(*), sum(coalesce(pg_column_size(e.payload), 0) + 40)
FROM due AS d JOIN platform.run_events AS e ON e.run_id = d.run_id
WHERE (d.events AND d.pruned < 3 AND e.kind <> 'run_ended') OR d.runs
GROUP BY d.agent
UNION ALL
SELECT 'questions', d.agent, count(*), sum(pg_column_size(q.question) + coalesce(pg_column_size(q.detail), 0)
    + coalesce(pg_column_size(q.answer), 0) + 300)
FROM due AS d JOIN platform.questions AS q ON q.run_id = d.run_id
WHERE d.events
GROUP BY d.agent
UNION ALL
SELECT 'runs', d.agent, count(*), sum(d.size + {size_of_recording.sql})
FROM due AS d JOIN platform.runs AS r USING (run_id)
WHERE d.runs
GROUP BY d.agent
UNION ALL
SELECT 'decisions', d.agent, count(*), sum(pg_column_size(d.facts) + pg_column_size(d.grounds)
    + pg_column_size(d.rejected_rules) + pg_column_size(d.calls) + 250)
FROM platform.decisions AS d
JOIN policy AS p ON d.run_id < p.oldest_kept AND (d.agent = p.agent OR (p.agent IS NULL AND d.agent <> ALL (p.others)))
WHERE NOT EXISTS (SELECT 1 FROM platform.runs AS r WHERE r.run_id = d.run_id
    AND (r.ended_at IS NULL OR r.ended_at >= p.decided_until))
GROUP BY d.agent
UNION ALL
SELECT 'store', CASE scope WHEN 'agent' THEN owner ELSE '' END, count(*), sum(pg_column_size(value) + 200)
FROM platform.store
WHERE expires_at <= now()
GROUP BY 2
UNION ALL
SELECT 'limit_changes', old.agent, count(*), sum(old.size)
FROM policy AS p CROSS JOIN LATERAL ({prunable_limit_changes.sql}) AS old
GROUP BY old.agent
ORDER BY 1, 2
