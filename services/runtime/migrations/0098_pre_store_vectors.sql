-- By what items of the store are found by meaning. They are compared as pgvector's type and kept as numbers: it may come, or
-- go, later. Of an item that was written since, `updated_at` is another, and they are those of what it was.
-- depends: 0097_pre_effects

CREATE TABLE platform.store_vectors (
    scope      text        NOT NULL,
    owner      text        NOT NULL,
    thread_id  text        NOT NULL,
    namespace  text        NOT NULL,
    key        text        NOT NULL,
    embed      text        NOT NULL,
    field      text        NOT NULL,
    embedding  real[]      NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (scope, owner, thread_id, namespace, key, embed, field),
    FOREIGN KEY (scope, owner, thread_id, namespace, key) REFERENCES platform.store ON DELETE CASCADE
);

-- Where it may be had, and this role may have it. Else whoever administers the database makes it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
    END IF;
EXCEPTION WHEN insufficient_privilege OR undefined_file OR invalid_schema_name OR feature_not_supported THEN
    RAISE NOTICE 'without pgvector, stores are not searched by meaning';
END
$$;
