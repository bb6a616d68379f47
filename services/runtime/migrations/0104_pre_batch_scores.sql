-- depends: 0103_pre_batch_answers

-- By what scores are counted, without a look at items that nobody knows the truth of.
CREATE INDEX batch_items_scored ON platform.batch_items (batch_id, rule, truth, verdict)
    WHERE truth IS NOT NULL AND verdict IS NOT NULL;
