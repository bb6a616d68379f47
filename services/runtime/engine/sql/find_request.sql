SELECT {runs.*} FROM platform.runs WHERE subject = %(subject)s AND request_id = %(request_id)s
