-- depends: 0109_pre_rolled_back

-- How many items had ended in each state when as many had as `counted_as`, of a batch that was started at `counted_since`: who
-- reads it counts those that ended since then.
ALTER TABLE platform.batches
    ADD COLUMN counted       jsonb  NOT NULL DEFAULT '{}',
    ADD COLUMN counted_as    bigint NOT NULL DEFAULT 0,
    ADD COLUMN counted_since timestamptz;

CREATE FUNCTION platform.batch_ends(batch platform.batches, OUT counts jsonb, OUT last bigint)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(state, count), '{}'), coalesce(max(last), 0) FROM (
        SELECT state, sum(count) AS count, max(last) AS last FROM (
            SELECT key AS state, value::bigint AS count, batch.counted_as AS last
            FROM jsonb_each_text(batch.counted) WHERE batch.counted_since IS NOT DISTINCT FROM batch.started_at
            UNION ALL
            SELECT state, count(*), max(ended_as) FROM platform.batch_items
            WHERE batch_id = batch.batch_id AND ended_as > CASE
                WHEN batch.counted_since IS NOT DISTINCT FROM batch.started_at THEN batch.counted_as ELSE 0 END
            GROUP BY state
        ) AS parts GROUP BY state
    ) AS sums
$$;
