-- depends: 0061_pre_labels 0094_pre_titles

-- The words of a text, in small letters; where a script writes no spaces between words, its characters.
CREATE FUNCTION platform.words_of(given text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT found[1]), '{}')
    FROM regexp_matches(
        regexp_replace(lower(given), '([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])', ' \1 ', 'g'),
        '[[:alnum:]]+', 'g'
    ) AS found
$$;

-- What a run is found by: the words of its title and labels, written with it, never changed, gone with it. A table of its own,
-- since of each index of `runs` a run has an entry for whatever happens to it.
CREATE TABLE platform.run_words (
    run_id uuid     PRIMARY KEY REFERENCES platform.runs ON DELETE CASCADE,
    words  tsvector NOT NULL
);
-- What waits to be sorted in is read by every search.
CREATE INDEX run_words_by_word ON platform.run_words USING gin (words) WITH (gin_pending_list_limit = 256);
