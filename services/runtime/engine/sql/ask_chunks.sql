-- Whoever claims a run next is to know that its chunks are asked for.
INSERT INTO platform.watches (run_id, owner, chunks) VALUES (%(run_id)s, %(asked_by)s, true)
ON CONFLICT (run_id, owner) DO UPDATE SET chunks = true
