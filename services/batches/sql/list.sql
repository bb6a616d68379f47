SELECT *, clock_timestamp() > greatest(lease_until, started_at + interval '2 seconds') AS is_left
FROM platform.batches
WHERE (subject = %(wanted)s OR %(wanted)s::text IS NULL)
    AND (batch_id < %(before)s::uuid OR %(before)s::uuid IS NULL)
ORDER BY batch_id DESC LIMIT %(limit)s
