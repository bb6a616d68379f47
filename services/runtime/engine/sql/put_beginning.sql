-- What a claimed run begins with, in one transaction: the checkpoint of its input, and the one that its first node starts
-- from. Nothing is written unless the claim holds; no node has run, so that the run itself does not change.
WITH fence AS (
    SELECT cancel_requested FROM platform.runs
    WHERE {claim_holds.sql}
    FOR SHARE
), checkpoints AS (
    INSERT INTO platform.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, body, changes, metadata)
    SELECT %(thread_id)s, %(checkpoint_ns)s, c.checkpoint_id, c.parent_checkpoint_id, c.body, c.changes, c.metadata
    FROM fence, (VALUES
        (%(input_id)s, NULL, %(input_body)b::bytea, %(input_changes)b::bytea, %(input_metadata)s::jsonb),
        (%(checkpoint_id)s, %(parent_checkpoint_id)s, %(body)b::bytea, %(changes)b::bytea, %(metadata)s::jsonb)
    ) AS c (checkpoint_id, parent_checkpoint_id, body, changes, metadata)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET body = excluded.body, changes = excluded.changes, metadata = excluded.metadata
), {step_writes.sql}
SELECT cancel_requested FROM fence
