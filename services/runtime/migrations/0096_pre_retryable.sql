-- depends: 0080_pre_decided

-- Whether the same input may be asked again, since nothing was found wrong with it. NULL of runs that have not ended, and of
-- those that the release before this one ends.
ALTER TABLE platform.runs ADD COLUMN retryable boolean;
