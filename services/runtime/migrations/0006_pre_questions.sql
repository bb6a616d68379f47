-- Runs that wait for a person: every replica looks for those that have waited too long, again and again.
-- depends: 0005_pre_idle_claims

CREATE INDEX runs_awaiting_input ON runs (run_id) WHERE state = 'AWAITING_INPUT';
