SELECT run_id::text, sequence, rule, destination, facts, decided_at FROM decisions
WHERE router = %(router)s AND (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz)
ORDER BY run_id, sequence
