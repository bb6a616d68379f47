SELECT * FROM platform.batches WHERE batch_id = %(batch_id)s AND subject = %(subject)s FOR UPDATE
