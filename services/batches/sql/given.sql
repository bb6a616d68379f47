SELECT number, key, sha256(input) AS digest FROM platform.batch_items
WHERE batch_id = %(batch_id)s AND number BETWEEN %(first)s AND %(last)s
