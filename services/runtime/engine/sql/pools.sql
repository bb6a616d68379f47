-- The pools of hosted graphs, the names that each has, and whether nobody of it has been seen for so long.
pools AS (
    SELECT pool, array_agg(DISTINCT name) AS names,
        pool <> %(runtime)s AND max(seen_at) < now() - make_interval(secs => %(away_s)s) AS is_away
    FROM platform.agents GROUP BY pool
)
