SELECT namespace, key FROM platform.store WHERE {store_scope.sql}
