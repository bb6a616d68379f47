-- What there is of each name, or of one: of the versions that its pool offered when it was last seen, the newest. What a
-- pool no longer offers, although its replicas have been seen since, is withdrawn.
SELECT DISTINCT ON (a.name) a.name, a.graph_version, a.pool, a.listed, a.outline,
    CASE WHEN a.seen_at < now() - make_interval(secs => %(away_s)s) THEN a.seen_at END AS away_since
FROM platform.agents AS a
WHERE (%(name)s::text IS NULL OR a.name = %(name)s) AND a.seen_at >= make_interval(secs => -%(away_s)s)
    + (SELECT max(own.seen_at) FROM platform.agents AS own WHERE own.pool = a.pool)
ORDER BY a.name, a.offered_at DESC, a.graph_version
