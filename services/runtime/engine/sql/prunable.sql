-- What is due, by kind and agent. A policy without an agent is that of all `others`; an age of NULL is for ever.
WITH policy AS (
    SELECT * FROM jsonb_to_recordset(%(policies)s::jsonb) AS p (agent text, others text[], history_s double precision,
        checkpoints_s double precision, events_s double precision, runs_s double precision, oldest_kept uuid)
), due AS (
    SELECT r.run_id, r.agent, r.pruned, pg_column_size(r.input) + coalesce(pg_column_size(r.output), 0) + 300 AS size,
        r.ended_at < now() - make_interval(secs => p.history_s) AS history,
        coalesce(r.ended_at < now() - make_interval(secs => p.checkpoints_s), false) AS checkpoints,
        coalesce(r.ended_at < now() - make_interval(secs => p.events_s), false) AS events,
        coalesce(r.ended_at < now() - make_interval(secs => p.runs_s), false) AS runs
    FROM runs AS r
    JOIN policy AS p ON r.agent = p.agent OR (p.agent IS NULL AND r.agent <> ALL (p.others))
    WHERE r.ended_at IS NOT NULL
), stored AS (
    SELECT thread_id, pg_column_size(body) + pg_column_size(changes) + pg_column_size(metadata) AS size, EXISTS (
            SELECT 1 FROM checkpoints AS later
            WHERE later.thread_id = c.thread_id AND later.checkpoint_ns = c.checkpoint_ns
                AND later.checkpoint_id > c.checkpoint_id
        ) AS older
    FROM checkpoints AS c
    UNION ALL
    SELECT thread_id, pg_column_size(writes), EXISTS (
            SELECT 1 FROM checkpoints AS later
            WHERE later.thread_id = w.thread_id AND later.checkpoint_ns = w.checkpoint_ns
                AND later.checkpoint_id > w.checkpoint_id
        )
    FROM checkpoint_writes AS w
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
FROM due AS d JOIN run_events AS e ON e.run_id = d.run_id
WHERE (d.events AND d.pruned < 3 AND e.kind <> 'run_ended') OR d.runs
GROUP BY d.agent
UNION ALL
SELECT 'runs', agent, count(*), sum(size) FROM due WHERE runs GROUP BY agent
UNION ALL
SELECT 'decisions', d.agent, count(*), sum(pg_column_size(d.facts) + pg_column_size(d.grounds)
    + pg_column_size(d.rejected_rules) + pg_column_size(d.calls) + 250)
FROM decisions AS d
JOIN policy AS p ON d.run_id < p.oldest_kept AND (d.agent = p.agent OR (p.agent IS NULL AND d.agent <> ALL (p.others)))
WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = d.run_id AND r.ended_at IS NULL)
GROUP BY d.agent
ORDER BY 1, 2
