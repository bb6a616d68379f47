-- Who holds the lock of migrations, what it does, and whom it waits for. What others do is seen by their own role alone.
SELECT held.pid, host(activity.client_addr), date_trunc('second', activity.query_start)::text,
    pg_blocking_pids(held.pid), left(activity.query, 200)
FROM pg_locks AS held JOIN pg_stat_activity AS activity ON activity.pid = held.pid
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1 AND activity.datname = current_database()
    AND (held.classid::bigint << 32) | held.objid::bigint = hashtextextended('signalbox migration', 3)
