-- The few-shot store. {schema} is the store's own schema, {trgm} and {vector} the schemas of the two extensions, which may
-- have been installed before and elsewhere; nothing here relies on search_path.
-- There is no index for the nearest: at hundreds of rows a scan takes under a millisecond and is exact, and an index on
-- vectors would fix their dimensions, hence the model.

-- name: lock
SELECT pg_advisory_xact_lock(hashtextextended(%(schema)s, 4242))

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: close_schema
REVOKE ALL ON SCHEMA {schema} FROM PUBLIC

-- name: create_extension
CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA {schema}

-- name: extensions
SELECT e.extname, n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname IN ('pg_trgm', 'vector')

-- name: create_entry
CREATE TABLE IF NOT EXISTS {schema}.entry (
    content_hash bytea PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('example', 'note')),
    text         text NOT NULL,
    sql          text CHECK ((sql IS NOT NULL) = (kind = 'example'))
)

-- name: create_embedding
CREATE TABLE IF NOT EXISTS {schema}.embedding (
    content_hash bytea NOT NULL REFERENCES {schema}.entry ON DELETE CASCADE,
    model        text NOT NULL,
    embedding    {vector}.vector NOT NULL,
    PRIMARY KEY (content_hash, model)
)

-- name: grant_usage
GRANT USAGE ON SCHEMA {schema} TO {role}

-- name: grant_select
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}

-- name: remove
DELETE FROM {schema}.entry WHERE content_hash <> ALL (%(hashes)s)

-- name: add
INSERT INTO {schema}.entry (content_hash, kind, text, sql)
SELECT * FROM unnest(%(hashes)s::bytea[], %(kinds)s::text[], %(texts)s::text[], %(sqls)s::text[])
ON CONFLICT (content_hash) DO NOTHING

-- name: not_embedded
SELECT e.content_hash, e.text FROM {schema}.entry AS e
WHERE NOT EXISTS (SELECT FROM {schema}.embedding AS v WHERE v.content_hash = e.content_hash AND v.model = %(model)s)
ORDER BY e.content_hash

-- name: embed
-- A row that another loader removed meanwhile has nothing to refer to any more.
INSERT INTO {schema}.embedding (content_hash, model, embedding)
SELECT e.content_hash, %(model)s, new.embedding::{vector}.vector
FROM unnest(%(hashes)s::bytea[], %(embeddings)s::text[]) AS new (content_hash, embedding)
JOIN {schema}.entry AS e ON e.content_hash = new.content_hash
ON CONFLICT (content_hash, model) DO NOTHING

-- name: nearest_by_vector
-- Dimensions differ when the model behind a name was exchanged; such rows can't be compared.
WITH near AS (
    SELECT e.kind, e.text, e.sql, 1 - (v.embedding OPERATOR({vector}.<=>) %(embedding)s::{vector}.vector) AS score
    FROM {schema}.entry AS e JOIN {schema}.embedding AS v ON v.content_hash = e.content_hash
    WHERE v.model = %(model)s AND {vector}.vector_dims(v.embedding) = %(dimensions)s
)
(SELECT * FROM near WHERE kind = 'example' ORDER BY score DESC, text LIMIT %(examples)s)
UNION ALL
(SELECT * FROM near WHERE kind = 'note' ORDER BY score DESC, text LIMIT %(notes)s)
ORDER BY kind, score DESC, text

-- name: nearest_by_similarity
WITH near AS (
    SELECT e.kind, e.text, e.sql, {trgm}.similarity(e.text, %(question)s)::float8 AS score FROM {schema}.entry AS e
)
(SELECT * FROM near WHERE kind = 'example' ORDER BY score DESC, text LIMIT %(examples)s)
UNION ALL
(SELECT * FROM near WHERE kind = 'note' ORDER BY score DESC, text LIMIT %(notes)s)
ORDER BY kind, score DESC, text
