-- Those that came with their answer end with it, in their order, before anything runs.
WITH added AS (
    INSERT INTO platform.batch_items
        (batch_id, number, key, input, given, rule, truth, state, run, run_id, verdict, ended_as)
    SELECT %(batch_id)s, new.number, new.key, new.input, new.given, new.rule, new.truth,
        CASE WHEN new.run IS NULL THEN 'PENDING' ELSE 'SETTLED' END, new.run, new.run_id, new.verdict,
        CASE WHEN new.run IS NOT NULL
            THEN %(ended_sequence)s + count(new.run) OVER (ORDER BY new.number ROWS UNBOUNDED PRECEDING) END
    FROM unnest(
        %(numbers)s::integer[], %(keys)s::text[], %(inputs)s::bytea[], %(givens)s::bytea[], %(rules)s::text[],
        %(truths)s::boolean[], %(runs)s::bytea[], %(run_ids)s::uuid[], %(verdicts)s::text[]
    ) AS new (number, key, input, given, rule, truth, run, run_id, verdict)
    RETURNING state
)
UPDATE platform.batches SET item_count = %(item_count)s, input_bytes = input_bytes + %(bytes)s,
    ended_sequence = ended_sequence + (SELECT count(*) FROM added WHERE state = 'SETTLED')
WHERE batch_id = %(batch_id)s
