-- Waits for autovacuum to leave every table of ours: for longer than deadlock_timeout, when it gives way.
DO $$
DECLARE
    tended regclass;
BEGIN
    FOR tended IN
        SELECT oid FROM pg_class
        WHERE relnamespace IN ('public'::regnamespace, to_regnamespace('platform')) AND relkind IN ('r', 'p')
            AND NOT relispartition AND relname !~ '^_yoyo' AND pg_has_role(relowner, 'USAGE')
        ORDER BY oid
    LOOP
        EXECUTE 'LOCK TABLE ' || tended || ' IN SHARE UPDATE EXCLUSIVE MODE';
    END LOOP;
END
$$
