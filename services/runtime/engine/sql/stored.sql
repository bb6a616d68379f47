SELECT relname, greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    AND relname IN ('runs', 'run_events', 'decisions', 'checkpoints', 'checkpoint_writes')
