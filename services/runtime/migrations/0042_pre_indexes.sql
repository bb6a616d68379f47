-- For an operator's list of all runs, and for replay, which reads a router's decisions run by run.
-- transactional: false
-- depends: 0041_pre_partition_checks

-- One that was interrupted stays behind, invalid.
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_by_time;
CREATE INDEX CONCURRENTLY runs_by_time ON platform.runs (created_at DESC, run_id DESC);
DROP INDEX CONCURRENTLY IF EXISTS platform.decisions_of_router;
CREATE INDEX CONCURRENTLY decisions_of_router ON platform.decisions (router, run_id, sequence);
