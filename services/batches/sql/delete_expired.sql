DELETE FROM platform.batches WHERE batch_id IN (
    SELECT batch_id FROM platform.batches
    WHERE expires_at < clock_timestamp() AND state IN ('UPLOADING', 'ENDED', 'CANCELLED')
    ORDER BY expires_at LIMIT 4 FOR UPDATE SKIP LOCKED
)
