-- For lists of an agent's runs, and of those in a state that few are in. The first costs a run an entry whenever it is created,
-- claimed or ended, as every index of all runs does; the second costs nothing of runs that succeed. With the next migration's
-- it is about 500 bytes of WAL more for a run, whose row and indexes write 4,000 without.
-- transactional: false
-- depends: 0070_pre_outcomes

-- One that was interrupted stays behind, invalid.
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_of_agent;
CREATE INDEX CONCURRENTLY runs_of_agent ON platform.runs (agent, created_at DESC, run_id DESC);
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_of_state;
CREATE INDEX CONCURRENTLY runs_of_state ON platform.runs (state, created_at DESC, run_id DESC)
    WHERE state IN ('AWAITING_INPUT', 'FAILED', 'CANCELLED', 'NEEDS_REVIEW');
