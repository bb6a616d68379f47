-- Questions that were asked before there was a column for their expiry.
UPDATE platform.runs SET expires_at = (input_request ->> 'expires_at')::timestamptz
WHERE run_id = ANY (ARRAY(
    SELECT run_id FROM platform.runs WHERE state = 'AWAITING_INPUT' AND expires_at IS NULL
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
