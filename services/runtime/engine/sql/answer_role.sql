-- The role that a caller who answers the question `q` by one answers by: one that it names, before that of operators.
coalesce((SELECT min(role) FROM unnest(q.roles) AS named (role) WHERE role = ANY (%(roles)s::text[])), %(operator)s::text)
