-- The policies of this replica's agents: of each the one in force, and the one that is built in.
pins AS (
    SELECT agent, built_in, policy_id, policy_version, limits, origins FROM jsonb_to_recordset(%(pins)s::jsonb)
        AS given (agent text, built_in boolean, policy_id text, policy_version text, limits jsonb, origins jsonb)
), stored_policies AS (
    INSERT INTO platform.policies (policy_id, policy_version, limits, origins)
    SELECT DISTINCT ON (policy_id) policy_id, policy_version, limits, origins FROM pins
    ON CONFLICT (policy_id) DO NOTHING
)
