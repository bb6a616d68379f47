SELECT k.digest, {r.*} FROM platform.run_keys AS k JOIN platform.runs AS r USING (run_id)
WHERE k.subject = %(subject)s AND k.agent = %(agent)s AND k.name = %(key)s
