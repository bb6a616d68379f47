INSERT INTO platform.threads (subject, thread_id) VALUES (%(subject)s, %(thread_id)s)
ON CONFLICT (subject, thread_id) DO UPDATE SET thread_id = excluded.thread_id
