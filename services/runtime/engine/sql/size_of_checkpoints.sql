SELECT count(*), coalesce(sum(size), 0) FROM (
    SELECT pg_column_size(body) + pg_column_size(changes) + pg_column_size(metadata) AS size
    FROM platform.checkpoints WHERE thread_id = ANY (%(run_ids)s)
    UNION ALL
    SELECT pg_column_size(writes) FROM platform.checkpoint_writes WHERE thread_id = ANY (%(run_ids)s)
) AS stored
