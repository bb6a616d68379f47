-- depends: 0052_pre_question_table

-- What was asked before there was a table for it. Rows are locked, so that none of them is answered meanwhile.
DO $$
BEGIN
    PERFORM platform.open_question(runs) FROM platform.runs WHERE state = 'AWAITING_INPUT' FOR NO KEY UPDATE;
END $$;
