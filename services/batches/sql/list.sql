WITH page AS MATERIALIZED (
    SELECT batch_id FROM platform.batches
    WHERE (subject = %(wanted)s OR %(wanted)s::text IS NULL)
        AND (batch_id < %(before)s::uuid OR %(before)s::uuid IS NULL)
    ORDER BY batch_id DESC LIMIT %(limit)s
)
SELECT batch.*, clock_timestamp() > greatest(lease_until, started_at + interval '2 seconds') AS is_left,
    ends.counts AS ended, (
        SELECT count(*) FROM platform.batch_items AS item WHERE item.batch_id = batch.batch_id AND item.state = 'RUNNING'
    ) AS running
FROM page JOIN platform.batches AS batch USING (batch_id), platform.batch_ends(batch) AS ends
ORDER BY batch.batch_id DESC
