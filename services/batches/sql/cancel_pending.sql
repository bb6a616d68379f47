-- The truth is known of findings alone; those that were not judged count as left for review.
WITH held AS (
    SELECT ended_sequence FROM platform.batches
    WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = 'CANCELLING' FOR UPDATE
), waiting AS (
    SELECT number, row_number() OVER (ORDER BY number) AS place FROM platform.batch_items
    WHERE batch_id = %(batch_id)s AND state = 'PENDING'
), cancelled AS (
    UPDATE platform.batch_items AS item SET state = 'CANCELLED', ended_as = held.ended_sequence + waiting.place,
        verdict = CASE WHEN item.truth IS NOT NULL THEN 'no_verdict' END
    FROM held, waiting WHERE item.batch_id = %(batch_id)s AND item.number = waiting.number RETURNING item.number
)
UPDATE platform.batches SET ended_sequence = ended_sequence + (SELECT count(*) FROM cancelled)
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s
