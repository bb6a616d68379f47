-- Items by how near the nearest of their vectors is, of one kind and length; behind them those that have none. All of them
-- are looked at: how many a store holds is bounded.
SELECT namespace, key, value, ttl_s, created_at, updated_at, score FROM platform.store AS s LEFT JOIN LATERAL (
    SELECT max(nullif(1 - (v.embedding::vector <=> %(near)s::real[]::vector), 'NaN')) AS score
    FROM platform.store_vectors AS v
    WHERE v.scope = s.scope AND v.owner = s.owner AND v.thread_id = s.thread_id AND v.namespace = s.namespace AND v.key = s.key
        AND v.updated_at = s.updated_at AND v.embed = %(embed)s AND array_length(v.embedding, 1) = %(dims)s
        AND array_position(v.embedding, NULL) IS NULL
) AS nearest ON true
WHERE {store_scope.sql} AND (%(prefix)s = '' OR starts_with(namespace || '.', %(prefix)s || '.'))
ORDER BY score DESC NULLS LAST, updated_at DESC, namespace, key
