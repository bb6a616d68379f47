-- Of callers that wait, who has the fewest batches paced comes first.
WITH paced AS (
    SELECT subject, count(*) AS count FROM platform.batches
    WHERE state IN ('RUNNING', 'CANCELLING') AND lease_until >= clock_timestamp() GROUP BY subject
)
UPDATE platform.batches SET epoch = epoch + 1, lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE batch_id = (
    SELECT waiting.batch_id FROM platform.batches AS waiting LEFT JOIN paced USING (subject)
    WHERE waiting.state IN ('RUNNING', 'CANCELLING') AND waiting.lease_until < clock_timestamp()
    ORDER BY coalesce(paced.count, 0), waiting.lease_until, waiting.batch_id LIMIT 1 FOR UPDATE OF waiting SKIP LOCKED
) RETURNING *
