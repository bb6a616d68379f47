-- How many runs of each pool are pending, of so many at most; those of agents that no pool has are the runtime's own.
WITH {pools.sql}
SELECT coalesce(pools.pool, %(runtime)s), coalesce(pools.is_away, false), count(*)
FROM (SELECT agent FROM platform.runs WHERE state = 'PENDING' LIMIT %(most)s) AS pending
LEFT JOIN pools ON pending.agent = ANY (pools.names)
GROUP BY 1, 2
