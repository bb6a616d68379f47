-- The words by which a run `r` is found.
platform.words_of(concat_ws(' ', r.title, (SELECT string_agg(l.key || ' ' || l.value, ' ') FROM jsonb_each_text(r.labels) AS l)))
