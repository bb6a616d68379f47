SELECT count(*) FROM platform.decisions
WHERE (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz) AND rule <> %(node_failed)s AND {doubtful}
