SELECT {question_columns.sql}
FROM platform.questions AS q JOIN platform.runs AS r USING (run_id)
WHERE q.run_id = %(run_id)s AND (%(input_request_id)s::text = '' OR q.input_request_id = %(input_request_id)s)
    AND ((q.subject = %(subject)s AND r.roles <@ %(roles)s::text[]) OR {answer_right.sql} IS NOT NULL)
ORDER BY q.asked_at DESC
LIMIT 1
