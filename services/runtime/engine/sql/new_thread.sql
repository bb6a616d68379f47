INSERT INTO platform.threads (subject, thread_id) VALUES (%(subject)s, %(thread_id)s)
ON CONFLICT DO NOTHING
RETURNING thread_id
