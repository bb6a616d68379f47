-- What a step adds to what its run has decided and spent, where it adds any.
decision_count = decision_count + %(decision_count)s,
model_calls = coalesce(%(model_calls)s, model_calls),
tool_calls = coalesce(%(tool_calls)s, tool_calls),
input_tokens = coalesce(%(input_tokens)s, input_tokens),
output_tokens = coalesce(%(output_tokens)s, output_tokens),
wall_time_s = coalesce(%(wall_time_s)s, wall_time_s)
