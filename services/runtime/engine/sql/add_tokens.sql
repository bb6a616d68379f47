WITH forgotten AS (
    DELETE FROM platform.caller_tokens WHERE day < (now() AT TIME ZONE 'UTC')::date - %(days_kept)s::int
)
INSERT INTO platform.caller_tokens AS counted (day, subject, owner, tokens)
SELECT (now() AT TIME ZONE 'UTC')::date, spent.subject, %(owner)s, spent.tokens
FROM unnest(%(subjects)s::text[], %(tokens)s::bigint[]) AS spent (subject, tokens)
ON CONFLICT (day, subject, owner) DO UPDATE SET tokens = counted.tokens + excluded.tokens
