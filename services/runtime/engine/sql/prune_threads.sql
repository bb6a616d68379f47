-- A statement of its own after the threads were locked: what it sees is what there is while nobody can add to them.
WITH gone AS (
    DELETE FROM platform.threads AS t
    USING unnest(%(subjects)s::text[], %(thread_ids)s::text[]) AS given (subject, thread_id)
    WHERE t.subject = given.subject AND t.thread_id = given.thread_id AND NOT EXISTS (
        SELECT 1 FROM platform.runs AS r WHERE r.subject = t.subject AND r.thread_id = t.thread_id)
    RETURNING t.subject, t.thread_id
)
DELETE FROM platform.store AS s USING gone
WHERE s.scope = 'thread' AND s.owner = gone.subject AND s.thread_id = gone.thread_id
