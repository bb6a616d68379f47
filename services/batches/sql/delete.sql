DELETE FROM platform.batches WHERE batch_id = %(batch_id)s
