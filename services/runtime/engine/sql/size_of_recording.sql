-- Bytes of what the nodes of the run `r` heard, and of the results of its effects.
CASE WHEN r.recorded THEN (
    SELECT coalesce(sum(pg_column_size(a.answer)), 0) FROM platform.recorded_answers AS a WHERE a.run_id = r.run_id
) ELSE 0 END + (
    SELECT coalesce(sum(pg_column_size(e.result)), 0) FROM platform.effects AS e WHERE e.run_id = r.run_id
)
