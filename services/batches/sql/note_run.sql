WITH held AS (
    SELECT FROM platform.batches WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s FOR SHARE
)
UPDATE platform.batch_items SET run_id = %(run_id)s FROM held
WHERE batch_id = %(batch_id)s AND number = %(number)s
