-- Writes down that an effect begins, unless it has before; nothing, and no row, unless the claim still holds. What is read
-- of it is what was there before.
WITH fence AS (
    SELECT run_id FROM platform.runs WHERE {claim_holds.sql} FOR SHARE
), begun AS (
    INSERT INTO platform.effects (run_id, operation, name, epoch)
    SELECT run_id, %(operation)s, %(name)s, %(epoch)s FROM fence
    ON CONFLICT DO NOTHING
)
SELECT e.run_id IS NOT NULL AS known, e.ended_at IS NOT NULL AS ended, e.result_type, e.result
FROM fence LEFT JOIN platform.effects AS e ON e.run_id = fence.run_id AND e.operation = %(operation)s
