UPDATE platform.agents AS a SET seen_at = now()
FROM unnest(%(names)s::text[], %(versions)s::text[]) AS given (name, graph_version)
WHERE a.name = given.name AND a.graph_version = given.graph_version AND a.pool = %(pool)s
RETURNING a.name
