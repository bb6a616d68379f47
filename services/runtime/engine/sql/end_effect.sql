-- Keeps the result of an effect, unless the claim is lost.
WITH fence AS (
    SELECT run_id FROM platform.runs WHERE {claim_holds.sql} FOR SHARE
)
UPDATE platform.effects AS e
SET ended_at = clock_timestamp(), result_type = %(result_type)s, result = %(result)s::bytea
FROM fence
WHERE e.run_id = fence.run_id AND e.operation = %(operation)s
