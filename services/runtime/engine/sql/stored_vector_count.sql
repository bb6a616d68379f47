-- Vectors that a search compares, but for those of some items.
SELECT count(*) FROM (
    SELECT FROM platform.store_vectors AS v JOIN platform.store AS s USING (scope, owner, thread_id, namespace, key)
    WHERE {store_scope.sql} AND v.updated_at = s.updated_at AND NOT EXISTS (
        SELECT FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) AS but (but_namespace, but_key)
        WHERE but_namespace = s.namespace AND but_key = s.key
    )
    LIMIT %(most)s
) AS kept
