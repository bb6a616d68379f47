WITH gone AS (
    DELETE FROM runs WHERE run_id = ANY (%(run_ids)s::uuid[])
    RETURNING pg_column_size(input) + coalesce(pg_column_size(output), 0) + 300 AS size
)
SELECT count(*), coalesce(sum(size), 0) FROM gone
