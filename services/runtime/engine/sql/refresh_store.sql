-- Items that a step has read last for their time from now on. One that somebody writes at this moment does so by itself.
UPDATE platform.store SET expires_at = now() + make_interval(secs => r.lasts_s)
FROM unnest(%(namespaces)s::text[], %(keys)s::text[], %(lasts_s)s::float8[]) AS r (namespace, key, lasts_s)
WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM platform.store
        WHERE {store_scope.sql}
            AND (namespace, key) IN (SELECT n, k FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) AS read (n, k))
        FOR UPDATE SKIP LOCKED
    )) AND store.namespace = r.namespace AND store.key = r.key
