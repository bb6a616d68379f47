-- For retention, whose policies are each agent's own: what is due of one is found past the runs of all others. A run has an entry
-- once it has ended.
-- transactional: false
-- depends: 0073_pre_runs_of_agents_and_states

DROP INDEX CONCURRENTLY IF EXISTS platform.runs_ended_of_agent;
CREATE INDEX CONCURRENTLY runs_ended_of_agent ON platform.runs (agent, pruned, ended_at) WHERE ended_at IS NOT NULL;
