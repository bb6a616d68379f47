-- One that was away, or is new, is the newest version of its name.
WITH given AS (
    SELECT name, graph_version, listed, outline
    FROM unnest(%(names)s::text[], %(versions)s::text[], %(listed)s::bytea[], %(outlines)s::bytea[])
        AS g (name, graph_version, listed, outline)
), left_to_us AS (
    DELETE FROM platform.agents AS a USING given WHERE a.name = given.name AND a.pool <> %(pool)s
        AND a.graph_version <> given.graph_version
)
INSERT INTO platform.agents AS a (name, graph_version, pool, listed, outline)
SELECT name, graph_version, %(pool)s, listed, outline FROM given
ON CONFLICT (name, graph_version) DO UPDATE
SET pool = excluded.pool, listed = excluded.listed, outline = excluded.outline, seen_at = now(),
    offered_at = CASE WHEN a.seen_at < now() - make_interval(secs => %(away_s)s) THEN now() ELSE a.offered_at END
