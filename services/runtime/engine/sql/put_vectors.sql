-- The vectors of items that this transaction has written; those of their fields that are no longer there go.
WITH given AS (
    SELECT namespace, key, field, embedding::real[] AS embedding
    FROM unnest(%(namespaces)s::text[], %(keys)s::text[], %(fields)s::text[], %(embeddings)s::text[])
        AS g (namespace, key, field, embedding)
), gone AS (
    DELETE FROM platform.store_vectors AS v
    WHERE v.scope = %(scope)s AND v.owner = %(owner)s AND v.thread_id = %(thread_id)s AND v.embed = %(embed)s
        AND (v.namespace, v.key) IN (SELECT namespace, key FROM given)
        AND (v.namespace, v.key, v.field) NOT IN (SELECT namespace, key, field FROM given)
)
INSERT INTO platform.store_vectors (scope, owner, thread_id, namespace, key, embed, field, embedding, updated_at)
SELECT %(scope)s, %(owner)s, %(thread_id)s, namespace, key, %(embed)s, field, embedding, now() FROM given
ORDER BY namespace, key, field
ON CONFLICT (scope, owner, thread_id, namespace, key, embed, field)
DO UPDATE SET embedding = excluded.embedding, updated_at = excluded.updated_at
