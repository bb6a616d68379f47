-- Tells chunks to the replicas whose callers ask for them, as long as this one holds the run. Returns the runs of which
-- anybody does. Nobody is told where the server's queue of news fills.
SELECT run_id::text, CASE WHEN pg_notification_queue_usage() < 0.25
    THEN pg_notify('signalbox:' || right(owner, 48), payload) END
FROM (
    SELECT w.run_id, w.owner, given.payload
    FROM unnest(%(run_ids)s::uuid[], %(epochs)s::bigint[], %(payloads)s::text[])
        WITH ORDINALITY AS given (run_id, epoch, payload, n)
    JOIN platform.runs AS r ON r.run_id = given.run_id AND r.epoch = given.epoch
    JOIN platform.watches AS w ON w.run_id = given.run_id AND w.chunks
    ORDER BY given.n
) AS asked
