INSERT INTO platform.watches (run_id, owner) SELECT run_id, %(owner)s FROM unnest(%(run_ids)s::uuid[]) AS given (run_id)
ON CONFLICT DO NOTHING
