-- Those of an age that no run is in. Whoever is about to create a run there has locked it.
SELECT subject, thread_id FROM platform.threads AS t
WHERE t.created_at < now() - make_interval(secs => %(age_s)s) AND NOT EXISTS (
    SELECT FROM platform.runs AS r WHERE r.subject = t.subject AND r.thread_id = t.thread_id)
ORDER BY t.subject, t.thread_id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
