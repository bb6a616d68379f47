-- A run that goes on from a checkpoint of another has been claimed once, in a way: whoever claims it looks for one.
UPDATE platform.runs
SET epoch = 1, forked_from = %(forked_from)s::jsonb, model_calls = %(model_calls)s, tool_calls = %(tool_calls)s, input_tokens = %(input_tokens)s,
    output_tokens = %(output_tokens)s, wall_time_s = %(wall_time_s)s
WHERE run_id = %(run_id)s
RETURNING {runs.*}
