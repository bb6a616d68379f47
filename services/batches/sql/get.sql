-- One statement, so that the counts are of the moment of the row: what ends later is told by a later end's number.
SELECT batch.*, clock_timestamp() > greatest(lease_until, started_at + interval '2 seconds') AS is_left,
    ends.counts AS ended, (
        SELECT count(*) FROM platform.batch_items AS item WHERE item.batch_id = batch.batch_id AND item.state = 'RUNNING'
    ) AS running
FROM platform.batches AS batch, platform.batch_ends(batch) AS ends
WHERE batch.batch_id = %(batch_id)s AND (subject = %(subject)s OR %(sees_all)s)
