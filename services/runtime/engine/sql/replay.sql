-- The decisions of a router under other limits: of every run how many there are, and where it would first have gone
-- elsewhere. A run with facts of another shape than the router's is left to Python, which knows what to make of them.
WITH by_run AS (
    -- One number says which decision and which way, so that a row is decided once: the least of them is the first decision.
    SELECT run_id, count(*) AS decision_count,
        min(CASE WHEN rule = ANY (%(before_tables)s) THEN NULL WHEN {fits} THEN sequence * %(ways)s + {way} ELSE -1 END) AS found
    FROM platform.decisions
    WHERE router = %(router)s AND (decided IS NULL OR decided ->> 'by' IN ('lifted', 'table'))
        AND (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz)
    GROUP BY run_id
), total AS (
    SELECT count(*) AS run_count, coalesce(sum(decision_count), 0)::bigint AS decision_count
    FROM by_run WHERE found IS DISTINCT FROM -1
)
SELECT total.run_count, total.decision_count, by_run.run_id::text, by_run.found %% %(ways)s AS way, d.sequence, d.rule,
    d.destination, d.decided_at
FROM total
LEFT JOIN by_run ON by_run.found IS NOT NULL
LEFT JOIN platform.decisions AS d ON d.run_id = by_run.run_id AND d.sequence = by_run.found / %(ways)s
ORDER BY by_run.run_id
