-- Who executes a run whose chunks are asked for is told so. Nobody is told where the server's queue of news fills.
WITH watched AS (
    INSERT INTO platform.watches AS w (run_id, owner, chunks)
    SELECT run_id, %(owner)s, chunks FROM unnest(%(run_ids)s::uuid[], %(chunks)s::boolean[]) AS given (run_id, chunks)
    ON CONFLICT (run_id, owner) DO UPDATE SET chunks = excluded.chunks
    RETURNING w.run_id, w.chunks
)
SELECT pg_notify('signalbox:' || right(r.owner, 48), 'chunks:' || r.run_id)
FROM watched JOIN platform.runs AS r USING (run_id)
WHERE watched.chunks AND r.owner IS NOT NULL AND pg_notification_queue_usage() < 0.25
