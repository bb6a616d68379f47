UPDATE platform.run_keys SET run_id = %(run_id)s, digest = %(digest)s
WHERE subject = %(subject)s AND agent = %(agent)s AND name = %(key)s
