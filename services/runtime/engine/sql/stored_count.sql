SELECT count(*) FROM (SELECT FROM platform.store WHERE {store_scope.sql} LIMIT %(most)s) AS kept
