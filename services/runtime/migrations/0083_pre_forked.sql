-- depends: 0080_pre_decided

-- What a run that goes on from a step of another was made of: that run, its checkpoint and step, and how its state was changed.
ALTER TABLE platform.runs ADD COLUMN forked_from jsonb;
