-- depends: 0065_pre_screened_answers

-- What came of a run for its caller. Empty of those that have not ended, and of those that the release before this one ends.
ALTER TABLE platform.runs ADD COLUMN outcome text NOT NULL DEFAULT '';
