-- Whether this session holds the lock of migrations.
SELECT EXISTS (
    SELECT FROM pg_locks AS held
    WHERE held.pid = pg_backend_pid() AND held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
        AND (held.classid::bigint << 32) | held.objid::bigint = hashtextextended('signalbox migration', 3)
)
