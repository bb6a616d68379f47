SELECT * FROM platform.batches
WHERE (subject = %(wanted)s OR %(wanted)s::text IS NULL)
    AND (batch_id < %(before)s::uuid OR %(before)s::uuid IS NULL)
ORDER BY batch_id DESC LIMIT %(limit)s
