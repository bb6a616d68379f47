-- How often a run was claimed since it last took a step: what takes every replica down must not do so for ever.
-- depends: 0004_pre_threads

ALTER TABLE runs ADD COLUMN idle_claims integer NOT NULL DEFAULT 0;
