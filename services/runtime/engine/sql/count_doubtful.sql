SELECT count(*) FROM platform.decisions
WHERE (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz) AND rule <> ALL (%(before_tables)s) AND {doubtful}
