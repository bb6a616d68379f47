-- Runs that wait to be gone on with: those that another graph has begun are looked for again and again.
-- transactional: false
-- depends: 0007_pre_schema

-- One that was interrupted stays behind, invalid.
DROP INDEX CONCURRENTLY IF EXISTS platform.runs_begun;
CREATE INDEX CONCURRENTLY runs_begun ON platform.runs (created_at, run_id) WHERE state = 'PENDING' AND epoch > 0;
