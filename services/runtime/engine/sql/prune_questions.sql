WITH gone AS (
    DELETE FROM platform.questions WHERE run_id = ANY (%(run_ids)s::uuid[])
    RETURNING pg_column_size(question) + coalesce(pg_column_size(detail), 0) + coalesce(pg_column_size(answer), 0) + 300 AS size
)
SELECT count(*), coalesce(sum(size), 0) FROM gone
