-- What it knew of its caller beyond their roles is not needed any more.
UPDATE platform.batches AS batch SET state = CASE state WHEN 'RUNNING' THEN 'ENDED' ELSE 'CANCELLED' END,
    ended_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %(kept_s)s),
    pace = 0, held_up_by = '', claims = '{}', counted_since = started_at,
    (counted, counted_as) = (SELECT counts, last FROM platform.batch_ends(batch))
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state IN ('RUNNING', 'CANCELLING') AND NOT EXISTS (
    SELECT FROM platform.batch_items WHERE batch_id = %(batch_id)s AND state IN ('PENDING', 'RUNNING')
)
