-- depends: 0100_pre_batches

-- What an item came with beside its input (`NewBatchItem` without that): an answer, the truth, labels. Its rule, its truth and its
-- verdict are what scores are counted by.
ALTER TABLE platform.batch_items
    ADD COLUMN given   bytea,
    ADD COLUMN rule    text NOT NULL DEFAULT '',
    ADD COLUMN truth   boolean,
    ADD COLUMN verdict text;
