-- The rules of an agent that the ledger has, walked from one to the next by index; those of earlier releases are among them.
WITH RECURSIVE known AS (
    (SELECT first.router, first.rule FROM platform.decisions AS first ORDER BY first.router, first.rule LIMIT 1)
    UNION ALL
    SELECT next.router, next.rule FROM known CROSS JOIN LATERAL (
        SELECT d.router, d.rule FROM platform.decisions AS d
        WHERE (d.router, d.rule) > (known.router, known.rule)
        ORDER BY d.router, d.rule
        LIMIT 1
    ) AS next
)
SELECT router, rule FROM known WHERE starts_with(router, %(agent)s || '.')
