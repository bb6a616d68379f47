SELECT number, key, sha256(input || coalesce(given, '') || coalesce(run, '')) AS digest FROM platform.batch_items
WHERE batch_id = %(batch_id)s AND number BETWEEN %(first)s AND %(last)s
