SELECT {runs.*} FROM platform.runs WHERE run_id = %(run_id)s AND (%(any_subject)s OR subject = %(subject)s)
