q.run_id, q.input_request_id, q.agent, q.subject, q.question, q.options, q.any_text, q.plan_hash, q.detail, q.for_caller,
q.roles, q.assignee, q.escalated_from, q.state, q.asked_at, q.expires_at, q.answer, q.answered_by, q.answered_as,
q.answered_role, q.closed_at, {answer_right.sql} AS granted
