-- In the transaction of the step that follows from them, which holds the run's row: no other numbers answers of the run.
INSERT INTO platform.recorded_answers (run_id, sequence, answer)
SELECT %(run_id)s, coalesce((SELECT max(sequence) FROM platform.recorded_answers WHERE run_id = %(run_id)s), 0) + given.number,
    given.answer
FROM unnest(%(answers)s::bytea[]) WITH ORDINALITY AS given (answer, number)
