-- Which of these names are another pool's: one that is there, or has runs of it that have not ended.
SELECT a.name, a.pool, bool_or(a.seen_at >= now() - make_interval(secs => %(away_s)s)) AS is_seen
FROM platform.agents AS a
WHERE a.name = ANY (%(names)s) AND a.pool <> %(pool)s AND a.pool <> ALL (%(succeeds)s)
GROUP BY a.name, a.pool
HAVING bool_or(a.seen_at >= now() - make_interval(secs => %(away_s)s)) OR {has_unfinished_runs.sql}
ORDER BY a.name
