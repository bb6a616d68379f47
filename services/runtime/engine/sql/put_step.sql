-- A step of a claimed run, in one statement and so in one transaction: nothing is written unless the claim still holds.
WITH fence AS (
    UPDATE platform.runs
    -- To have taken down what the run begins with is no step yet: a node has come to an end, or one of a graph inside it.
    SET idle_claims = CASE WHEN %(event_count)s > 0 OR %(checkpoint_ns)s::text <> '' THEN 0 ELSE idle_claims END,
        suspicion = CASE WHEN %(event_count)s > 0 OR %(checkpoint_ns)s::text <> '' THEN 0 ELSE suspicion END,
        -- A node's step has taken over what attempts at the node cost; the steps of a graph inside it have no events.
        attempts = CASE WHEN %(event_count)s > 0 THEN '[]' ELSE attempts END,
        event_count = event_count + %(event_count)s,
        {step_counts.sql}
    WHERE {claim_holds.sql}
    RETURNING agent, cancel_requested,
        event_count - %(event_count)s AS event_base,
        decision_count - %(decision_count)s AS decision_base
), {step_rows.sql}
SELECT event_base, decision_base, cancel_requested, now() FROM fence
