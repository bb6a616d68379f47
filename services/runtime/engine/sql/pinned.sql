-- The policy of a run that is being claimed: its own if it has one. One without that has begun was claimed by the release
-- before this one, and decided by what is built in.
coalesce(runs.policy_id, (
    SELECT pins.policy_id FROM pins WHERE pins.agent = runs.agent AND pins.built_in = (runs.started_at IS NOT NULL)
))
