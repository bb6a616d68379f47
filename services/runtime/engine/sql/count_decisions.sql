-- Of the decisions that are looked at, those that fit, by rule; and whether older ones may fit, too. One more is read than is
-- looked at: the edge, behind which nothing was. Nothing counted is one row, which says the rest.
WITH read AS MATERIALIZED (
    SELECT run_id, sequence, decision_id, agent, router, rule, destination, node, decided_at FROM ({source}) AS source
), edge AS MATERIALIZED (
    SELECT run_id, sequence FROM read ORDER BY run_id DESC, sequence DESC OFFSET %(counted)s LIMIT 1
), counted AS (
    SELECT router, rule, destination, min(node) AS node, count(*), max(decided_at) AS last_time,
        CASE WHEN %(interval_s)s > 0
            THEN to_timestamp(floor(extract(epoch FROM decided_at) / %(interval_s)s) * %(interval_s)s) END AS begin_time
    FROM read LEFT JOIN edge ON true
    WHERE decision_id IS NOT NULL AND agent = %(agent)s
        AND (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz)
        AND (edge.run_id IS NULL OR (read.run_id, read.sequence) > (edge.run_id, edge.sequence))
    GROUP BY router, rule, destination, begin_time
)
SELECT looked.is_partial, router, rule, destination, node, count, last_time, begin_time
FROM (
    SELECT EXISTS (SELECT FROM edge WHERE %(since)s::timestamptz IS NULL OR EXISTS ({older})) AS is_partial
) AS looked
LEFT JOIN counted ON true
ORDER BY begin_time DESC, router, rule, destination
