DELETE FROM platform.watches
WHERE owner = %(owner)s AND (%(run_ids)s::uuid[] IS NULL OR run_id = ANY (%(run_ids)s::uuid[]))
