-- For decisions of a caller's runs, and of those with a correlation id, in the order of the ledger. They cost a run two
-- entries when it is created; its steps change neither.
-- transactional: false
-- depends: 0054_pre_waiting_quota

-- One that was interrupted stays behind, invalid.
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_of_subject_by_id;
CREATE INDEX CONCURRENTLY runs_of_subject_by_id ON platform.runs (subject, run_id);
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_of_correlation;
CREATE INDEX CONCURRENTLY runs_of_correlation ON platform.runs (correlation_id, run_id);
