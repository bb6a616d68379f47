WITH gone AS (
    DELETE FROM platform.checkpoints WHERE thread_id = ANY (%(run_ids)s)
    RETURNING pg_column_size(body) + pg_column_size(changes) + pg_column_size(metadata) AS size
), gone_writes AS (
    DELETE FROM platform.checkpoint_writes WHERE thread_id = ANY (%(run_ids)s) RETURNING pg_column_size(writes) AS size
)
SELECT count(*), coalesce(sum(size), 0) FROM (SELECT size FROM gone UNION ALL SELECT size FROM gone_writes) AS removed
