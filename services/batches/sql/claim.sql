UPDATE platform.batches SET epoch = epoch + 1, lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE batch_id = (
    SELECT batch_id FROM platform.batches
    WHERE state IN ('RUNNING', 'CANCELLING') AND lease_until < clock_timestamp()
    ORDER BY lease_until, batch_id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING *
