"""What is refused by itself, dressed as something allowed: operators behind calls, calls and rows as columns."""

from tests.integration.sql_executor.hostile import table

OPERATORS = table(
    ("SELECT lower(name) ~ '(x+x+)+y' FROM devices", ""),
    ("SELECT lower(name) !~ '(x+x+)+y' FROM devices", ""),
    ("SELECT name FROM devices WHERE upper(name) ~* '^(([a-z]|[A-Z])*)*(.*.*.*.*)*x$'", ""),
    ("SELECT coalesce(name, ')') ~ '(x+x+)+y' FROM devices", ""),
    ("SELECT count(*) FROM devices GROUP BY lower(name) ~ 'x'", ""),
    ("SELECT lower(name) SIMILAR TO '(x|x)*' FROM devices", ""),
    ("SELECT to_jsonb(name) @? '$ ? (@ like_regex \"^(a+)+$\")' FROM devices", "unsupported_syntax"),
    ("SELECT to_jsonb(name) @@ '$ == 1' FROM devices", "unsupported_syntax"),
    ("SELECT lower(name) @@ 'x' FROM devices", "unsupported_syntax"),
    ("SELECT to_jsonb(name) ? 'x' FROM devices", ""),
    ("SELECT to_jsonb(name) ?| ARRAY['x'] FROM devices", ""),
    ("SELECT to_jsonb(name) #- '{a}' FROM devices", "query_failed"),
    ("SELECT abs(1) << 2", "unsupported_syntax"),
    ("SELECT abs(1) # 2", "unsupported_syntax"),
    ("SELECT lower('a') <-> 'b'", "unsupported_syntax"),
    ("SELECT name FROM devices ORDER BY name USING OPERATOR(pg_catalog.>)", "unsupported_syntax"),
    ("SELECT lower(name) IS NFC NORMALIZED FROM devices", "function_refused"),
    ("SELECT lower(name) IS JSON FROM devices", "unsupported_syntax"),
)

# Postgres reads `u.f` as `f(u)` when the row u has no column f.
CALLS_AS_COLUMNS = table(
    ("SELECT u.record_out, 1 AS record_out FROM users u", "unknown_column"),
    ("SELECT u.row_to_json, 1 AS row_to_json FROM users u", "unknown_column"),
    ("SELECT d.pg_column_size, 1 AS pg_column_size FROM devices d", "unknown_column"),
    ("SELECT d.pg_typeof, s.pg_typeof FROM devices d, (SELECT 1 AS pg_typeof) s", "unknown_column"),
    ("SELECT d.whole_name, 1 AS whole_name FROM devices d", "unknown_column"),
    ("SELECT devices.whole_name FROM devices, (SELECT 1 AS whole_name) s", "unknown_column"),
    ("SELECT public.devices.whole_name, 1 AS whole_name FROM devices", "unknown_column"),
    ("SELECT q.whole_name, 1 AS whole_name FROM (SELECT * FROM devices) q", "unknown_column"),
    ("SELECT q.record_out, 1 AS record_out FROM (SELECT name FROM devices) q", "unknown_column"),
    ("SELECT q.record_out, 1 AS record_out FROM (VALUES (1)) q", "unknown_column"),
    ("WITH q AS (SELECT * FROM devices) SELECT q.hash_record, 1 AS hash_record FROM q", "unknown_column"),
    ("WITH q(a) AS (SELECT 1) SELECT r.pg_typeof, 1 AS pg_typeof FROM q r", "unknown_column"),
    ("SELECT d.name, (SELECT d.pg_typeof FROM ships), 1 AS pg_typeof FROM devices d", "unknown_column"),
    ("SELECT x.pg_typeof FROM devices d, LATERAL (SELECT d.name) x, (SELECT 1 AS pg_typeof) s", "unknown_column"),
    ("SELECT u.to_json, to_json(1) FROM users u", "unknown_column"),
    ("SELECT u.concat, concat(1) FROM users u", "unknown_column"),
    ("SELECT u.count, count(*) FROM users u", "unknown_column"),
    ("SELECT u.pin, 1 AS pin FROM users u", "unknown_column"),
    ("SELECT name FROM devices d ORDER BY d.record_out, 'record_out'", "unknown_column"),
)

SYSTEM_COLUMNS = table(
    ("SELECT d.ctid, 1 AS ctid FROM devices d", "system_catalog"),
    ("SELECT d.tableoid, d.xmin, q.* FROM devices d, (SELECT 1 AS tableoid, 2 AS xmin) q", "system_catalog"),
    ("SELECT xmin AS tableoid, tableoid AS xmin FROM devices", "system_catalog"),
    ("SELECT 1 AS cmax FROM devices ORDER BY devices.cmax", "system_catalog"),
    ("SELECT system_user FROM (SELECT 1 AS system_user) q", "function_refused"),
    ('SELECT user FROM (SELECT 1 AS "user") q', "function_refused"),
    ('SELECT current_user, 1 AS "current_user"', "function_refused"),
    ('SELECT current_schema FROM (SELECT 1 AS "current_schema") q', "function_refused"),
)
