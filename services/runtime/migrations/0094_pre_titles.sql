-- depends: 0080_pre_decided

-- What a run was asked, in a line: written with the run, for lists and to be found by. Empty of runs that the release before
-- this one creates.
ALTER TABLE platform.runs ADD COLUMN title text NOT NULL DEFAULT '';
