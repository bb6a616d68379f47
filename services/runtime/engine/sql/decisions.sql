-- Decisions as they lie in the ledger, with what each was decided by.
SELECT run_id::text, sequence, rule, destination, facts, decided_at, router, policy_version FROM platform.decisions
WHERE (%(since)s::timestamptz IS NULL OR decided_at >= %(since)s::timestamptz) AND rule <> ALL (%(before_tables)s) AND {doubtful}
