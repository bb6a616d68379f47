-- How far retention has got with an ended run: 0 all is there, 1 only the last checkpoint, 2 none, 3 only the last event.
-- depends: 0002_pre_caller_quotas

ALTER TABLE runs ADD COLUMN pruned smallint NOT NULL DEFAULT 0;

CREATE INDEX runs_ended ON runs (pruned, ended_at) WHERE ended_at IS NOT NULL;
