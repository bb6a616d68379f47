-- Whether each of some words begins a word of a run `r`: of its title, or of one of its labels as `key=value`. What is no letter
-- and no digit in them is looked for as it stands.
CASE WHEN NOT EXISTS (
    SELECT FROM unnest(%(words)s::text[]) AS word
    WHERE strpos(lower(r.title), lower(word)) = 0 AND NOT EXISTS (
        SELECT FROM jsonb_each_text(r.labels) AS l WHERE strpos(lower(l.key || '=' || l.value), lower(word)) > 0
    )
) THEN NOT EXISTS (
    SELECT FROM unnest(platform.words_of(array_to_string(%(words)s::text[], ' '))) AS word
    WHERE NOT EXISTS (SELECT FROM unnest({words_of_run.sql}) AS has WHERE starts_with(has, word))
) END
