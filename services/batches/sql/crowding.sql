-- Of batches that a replica paces, one whose caller has more of them paced than whoever waits with the fewest would have.
WITH paced AS (
    SELECT subject, count(*) AS count FROM platform.batches
    WHERE state IN ('RUNNING', 'CANCELLING') AND lease_until >= clock_timestamp() GROUP BY subject
), waiting AS (
    SELECT min(coalesce(paced.count, 0)) AS fewest FROM platform.batches LEFT JOIN paced USING (subject)
    WHERE state IN ('RUNNING', 'CANCELLING') AND lease_until < clock_timestamp()
)
SELECT batch_id FROM waiting, platform.batches JOIN paced USING (subject)
WHERE batch_id = ANY(%(batch_ids)s::uuid[]) AND paced.count > waiting.fewest + 1
ORDER BY paced.count DESC, batch_id DESC LIMIT 1
