SELECT namespace, key, value, ttl_s, created_at, updated_at FROM platform.store
WHERE {store_scope.sql} AND (%(prefix)s = '' OR starts_with(namespace || '.', %(prefix)s || '.'))
ORDER BY updated_at DESC, namespace, key
