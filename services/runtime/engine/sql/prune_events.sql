-- The last event stays, for whoever watches the run once more.
WITH gone AS (
    DELETE FROM platform.run_events WHERE run_id = ANY (%(run_ids)s::uuid[]) AND (kind <> 'run_ended' OR %(last)s)
    RETURNING coalesce(pg_column_size(payload), 0) + 40 AS size
)
SELECT count(*), coalesce(sum(size), 0) FROM gone
