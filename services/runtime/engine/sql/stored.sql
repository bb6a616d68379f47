-- By table, with all its partitions; rows as Postgres estimates them.
SELECT stored.relname, sum(greatest(part.reltuples, 0))::bigint, sum(pg_total_relation_size(part.oid))::bigint
FROM pg_class AS stored
LEFT JOIN pg_inherits AS of ON of.inhparent = stored.oid
JOIN pg_class AS part ON part.oid = coalesce(of.inhrelid, stored.oid)
WHERE stored.relnamespace = 'platform'::regnamespace AND stored.relkind IN ('r', 'p')
    AND stored.relname IN ('runs', 'run_events', 'decisions', 'checkpoints', 'checkpoint_writes', 'questions', 'recorded_answers',
        'run_labels', 'run_words', 'store', 'store_vectors', 'effects', 'limit_changes')
GROUP BY stored.relname
