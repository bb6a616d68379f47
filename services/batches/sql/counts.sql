SELECT batch_id, state, count(*) AS count FROM platform.batch_items WHERE batch_id = ANY(%(batch_ids)s::uuid[])
GROUP BY batch_id, state
