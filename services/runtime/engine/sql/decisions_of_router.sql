-- Ordered by the column itself: its text would be sorted, where the index has it in order.
SELECT run_id::text, sequence, rule, destination, facts, decided_at FROM platform.decisions AS d
WHERE router = %(router)s AND (decided IS NULL OR decided ->> 'by' IN ('lifted', 'table'))
    AND (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz)
    AND (%(run_ids)s::uuid[] IS NULL OR run_id = ANY(%(run_ids)s::uuid[]))
ORDER BY d.run_id, d.sequence
