-- depends: 0050_pre_policies

-- Claims of the caller's token that executors are told of, by name. Runs of the release before have none.
ALTER TABLE platform.runs ADD COLUMN claims jsonb NOT NULL DEFAULT '{}';
