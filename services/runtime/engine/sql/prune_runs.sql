-- With what was recorded of them.
WITH gone AS (
    DELETE FROM platform.runs AS r WHERE run_id = ANY (%(run_ids)s::uuid[])
    RETURNING pg_column_size(input) + coalesce(pg_column_size(output), 0) + 300 + {size_of_recording.sql} AS size
)
SELECT count(*), coalesce(sum(size), 0) FROM gone
