-- Whether each of some words stands in the title of a run `r`, or in one of its labels as `key=value`.
NOT EXISTS (
    SELECT FROM unnest(%(words)s::text[]) AS word
    WHERE strpos(lower(r.title), lower(word)) = 0 AND NOT EXISTS (
        SELECT FROM jsonb_each_text(r.labels) AS l WHERE strpos(lower(l.key || '=' || l.value), lower(word)) > 0
    )
)
