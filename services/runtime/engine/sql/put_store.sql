-- What a step keeps, each key once, in one order for all: two steps that write the same keys wait for one another, and no more.
-- What is deleted stays as a row whose time is over, empty, until retention comes round.
INSERT INTO platform.store AS kept (scope, owner, thread_id, namespace, key, value, subject, ttl_s, created_at, updated_at, expires_at)
SELECT %(scope)s, %(owner)s, %(thread_id)s, w.namespace, w.key, coalesce(w.value, ''), %(subject)s, w.ttl_s, now(), now(),
    CASE WHEN w.value IS NULL THEN now() ELSE now() + make_interval(secs => w.lasts_s) END
FROM unnest(%(namespaces)s::text[], %(keys)s::text[], %(values)s::bytea[], %(ttls_s)s::float8[], %(lasts_s)s::float8[])
    AS w (namespace, key, value, ttl_s, lasts_s)
ORDER BY w.namespace, w.key
ON CONFLICT (scope, owner, thread_id, namespace, key) DO UPDATE
SET value = excluded.value, subject = excluded.subject, ttl_s = excluded.ttl_s, updated_at = excluded.updated_at,
    expires_at = excluded.expires_at,
    created_at = CASE WHEN kept.expires_at <= now() THEN excluded.created_at ELSE kept.created_at END
