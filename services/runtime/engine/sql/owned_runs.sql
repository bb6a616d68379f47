-- Of this replica's runs those that it does not know of, and those that are to be cancelled.
SELECT run_id::text, epoch, claim_id::text, cancel_requested FROM platform.runs
WHERE owner = %(owner)s AND state = 'RUNNING' AND (cancel_requested OR NOT EXISTS (
    SELECT 1 FROM unnest(%(run_ids)s::uuid[], %(claim_ids)s::uuid[]) AS known (run_id, claim_id)
    WHERE known.run_id = runs.run_id AND known.claim_id = runs.claim_id))
