-- Tells chunks to the replicas whose callers ask for them, as long as this one holds the run. Returns, of the runs that it
-- holds, whether anybody asks, and whether they were told: nobody is where the server's queue of news fills.
SELECT run_id::text, epoch, owner IS NOT NULL, CASE WHEN owner IS NOT NULL AND pg_notification_queue_usage() < 0.25
    THEN pg_notify('signalbox:' || right(owner, 48), payload)::text IS NOT NULL ELSE false END
FROM (
    SELECT given.run_id, given.epoch, w.owner, given.payload
    FROM unnest(%(run_ids)s::uuid[], %(epochs)s::bigint[], %(payloads)s::text[])
        WITH ORDINALITY AS given (run_id, epoch, payload, n)
    JOIN platform.runs AS r ON r.run_id = given.run_id AND r.epoch = given.epoch
    LEFT JOIN platform.watches AS w ON w.run_id = given.run_id AND w.chunks
    ORDER BY given.n
) AS asked
