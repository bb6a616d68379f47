WITH added AS (
    INSERT INTO platform.batch_items (batch_id, number, key, input)
    SELECT %(batch_id)s, given.number, given.key, given.input
    FROM unnest(%(numbers)s::integer[], %(keys)s::text[], %(inputs)s::bytea[]) AS given (number, key, input)
)
UPDATE platform.batches SET item_count = %(item_count)s, input_bytes = input_bytes + %(bytes)s
WHERE batch_id = %(batch_id)s
