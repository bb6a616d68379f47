-- Past those that somebody holds: who creates a run in one keeps it, and who deletes one needs no help.
SELECT t.subject, t.thread_id FROM platform.threads AS t
WHERE (t.subject, t.thread_id) IN (
    SELECT subject, thread_id FROM platform.runs WHERE run_id = ANY (%(run_ids)s::uuid[]) AND thread_id IS NOT NULL)
FOR UPDATE SKIP LOCKED
