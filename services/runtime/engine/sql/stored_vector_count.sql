-- Vectors that a search compares, but for those of some items. Those of each item are looked up by its key, whatever the planner
-- takes a store to hold: OFFSET 0 keeps it from joining in another order.
SELECT count(*) FROM (
    SELECT FROM platform.store AS s CROSS JOIN LATERAL (
        SELECT FROM platform.store_vectors AS v
        WHERE v.scope = s.scope AND v.owner = s.owner AND v.thread_id = s.thread_id AND v.namespace = s.namespace
            AND v.key = s.key AND v.updated_at = s.updated_at
        OFFSET 0
    ) AS own
    WHERE {store_scope.sql}
        AND (namespace, key) NOT IN (SELECT n, k FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) AS but (n, k))
    LIMIT %(most)s
) AS kept
