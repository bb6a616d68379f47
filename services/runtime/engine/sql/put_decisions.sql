-- What is decided of a claimed run before any node of it runs: no checkpoint, and no step that shows that the run gets on.
WITH fence AS (
    UPDATE platform.runs
    SET attempts = '[]', event_count = event_count + %(event_count)s,
        {step_counts.sql}
    WHERE {claim_holds.sql}
    RETURNING agent, cancel_requested,
        event_count - %(event_count)s AS event_base,
        decision_count - %(decision_count)s AS decision_base
), {step_ledger.sql}
SELECT event_base, decision_base, cancel_requested, now() FROM fence
