WITH gone AS (
    DELETE FROM runs WHERE run_id = ANY (%(run_ids)s::uuid[])
    RETURNING subject, thread_id, pg_column_size(input) + coalesce(pg_column_size(output), 0) + 300 AS size
), empty AS (
    DELETE FROM threads AS t USING gone
    WHERE t.subject = gone.subject AND t.thread_id = gone.thread_id AND NOT EXISTS (
        SELECT 1 FROM runs AS r
        WHERE r.subject = t.subject AND r.thread_id = t.thread_id AND r.run_id <> ALL (%(run_ids)s::uuid[]))
)
SELECT count(*), coalesce(sum(size), 0) FROM gone
