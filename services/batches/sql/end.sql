WITH held AS (
    UPDATE platform.batches SET ended_sequence = ended_sequence + 1
    WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s RETURNING ended_sequence
)
UPDATE platform.batch_items SET state = %(state)s, run_id = coalesce(%(run_id)s, run_id), run = %(run)s,
    error = %(error)s, verdict = %(verdict)s, ended_as = held.ended_sequence
FROM held WHERE batch_id = %(batch_id)s AND number = %(number)s AND state = 'RUNNING'
