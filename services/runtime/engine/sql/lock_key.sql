INSERT INTO platform.run_keys (subject, agent, name) VALUES (%(subject)s, %(agent)s, %(key)s)
ON CONFLICT (subject, agent, name) DO UPDATE SET name = excluded.name
