-- For the count of what waits, which every replica takes with each sweep.
-- transactional: false
-- depends: 0030_pre_waits

-- One that was interrupted stays behind, invalid.
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_waiting;
CREATE INDEX CONCURRENTLY runs_waiting ON platform.runs (waiting_for) WHERE state = 'PENDING' AND not_before IS NOT NULL;
