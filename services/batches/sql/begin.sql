WITH held AS (
    SELECT FROM platform.batches WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = 'RUNNING' FOR SHARE
), next AS (
    SELECT number FROM platform.batch_items WHERE batch_id = %(batch_id)s AND state = 'PENDING'
    ORDER BY number LIMIT %(limit)s
)
UPDATE platform.batch_items AS item SET state = 'RUNNING' FROM next, held
WHERE item.batch_id = %(batch_id)s AND item.number = next.number
RETURNING item.number, item.input, item.given, item.rule, item.truth, item.retry_count, item.run_id
