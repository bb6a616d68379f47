-- Items of one scope; those whose time is over are nobody's to see, until retention removes them.
scope = %(scope)s AND owner = %(owner)s AND thread_id = %(thread_id)s AND (expires_at IS NULL OR expires_at > now())
