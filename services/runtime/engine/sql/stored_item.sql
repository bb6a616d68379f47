SELECT namespace, key, value, ttl_s, created_at, updated_at FROM platform.store
WHERE {store_scope.sql} AND namespace = %(namespace)s AND key = %(key)s
