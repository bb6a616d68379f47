WITH looked_at AS MATERIALIZED ({source})
SELECT router, rule, destination, min(node) AS node, count(*), max(decided_at) AS last_time,
    CASE WHEN %(interval_s)s > 0
        THEN to_timestamp(floor(extract(epoch FROM decided_at) / %(interval_s)s) * %(interval_s)s) END AS begin_time,
    (SELECT count(*) FROM looked_at) AS looked_at
FROM looked_at
WHERE decision_id IS NOT NULL AND agent = %(agent)s
    AND (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz)
GROUP BY router, rule, destination, begin_time
ORDER BY begin_time DESC, router, rule, destination
