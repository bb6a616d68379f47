-- Nothing where a thread is there already, and is to be new.
INSERT INTO platform.threads AS kept (subject, thread_id, metadata) VALUES (%(subject)s, %(thread_id)s, %(metadata)s::jsonb)
ON CONFLICT (subject, thread_id) DO UPDATE SET metadata = kept.metadata || excluded.metadata WHERE NOT %(only_new)s
RETURNING pg_column_size(metadata) AS size
