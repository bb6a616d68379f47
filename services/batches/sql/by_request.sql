SELECT * FROM platform.batches WHERE subject = %(subject)s AND request_id = %(request_id)s
