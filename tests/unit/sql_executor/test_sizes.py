"""What a query may build, and how much work it may make that nothing can interrupt."""
# ruff: noqa: S608 - statements are what is checked here

from __future__ import annotations

from functools import reduce

import pytest

from services.kit.tools.executor import ToolRefused
from services.sql_executor.statement import check_statement
from tests.unit.sql_executor.test_statement_check import POLICY, _catalog


def _nested(times: int) -> str:
    """A text of a few hundred characters that builds itself up to a gigabyte and more."""
    inner = "'" + "x" * 100 + "'"
    for _ in range(times):
        inner = f"concat({', '.join(['q.a'] * 8)})" if inner == "q.a" else f"concat({inner}, {inner})"
    return inner


TOO_LARGE = [
    "SELECT jsonb_array_length(to_jsonb(string_to_array(repeat('a,',60000),',')) - "
    "string_to_array(repeat('b,',60000),','))",
    "SELECT to_jsonb(string_to_array(repeat('a,',100000),',')) ?| string_to_array(repeat('b,',100000),',')",
    "SELECT to_jsonb(string_to_array(repeat('a,',100000),',')) ?& string_to_array(repeat('b,',100000),',')",
    "SELECT jsonb_agg(name) - array_agg(name) FROM devices, generate_series(1, 1000)",
    "SELECT repeat('a', 1000000) < ANY (string_to_array(repeat('b,', 100000), ','))",
    "SELECT jsonb_pretty(repeat('[', 10000)::jsonb)",
    f"SELECT length({_nested(19)})"
    if len(_nested(19)) < POLICY.limits.query_length
    else "SELECT repeat('x', 99999999)",
    "WITH a AS (SELECT concat('xxxxxxxxxx', 'xxxxxxxxxx', 'xxxxxxxxxx', 'xxxxxxxxxx') AS x), "
    + ", ".join(
        f"{name} AS (SELECT concat({', '.join(['x'] * 20)}) AS x FROM {before})"
        for name, before in zip("bcdef", "abcde", strict=True)
    )
    + " SELECT length(x) FROM f",
    "SELECT concat(x, x) FROM (SELECT concat(x, x, x, x, x, x, x, x) AS x FROM (SELECT concat(x, x, x, x, x, x, x, x) "
    "AS x FROM (SELECT concat(name, name, name, name, name, name, name, name) AS x FROM devices) a) b) c",
    "SELECT repeat('x', 100000000)",
    # each quote is doubled
    "SELECT quote_literal(repeat('''', 12000000))",
    # 1,600 columns in each of twenty WITH queries
    f"WITH a0 AS (SELECT {', '.join(f'1 c{number}' for number in range(1600))}), "
    + ", ".join(f"a{number} AS (SELECT * FROM a{number - 1})" for number in range(1, 20))
    + " SELECT count(*) FROM a19",
    "SELECT repeat(name, 1000) FROM devices",
    "SELECT repeat('x', device_id) FROM devices",
    "SELECT lpad('x', 100000000)",
    "SELECT rpad('x', device_id) FROM devices",
    "SELECT format('%100000000s', 'x')",
    "SELECT format('%*s', 100000000, 'x')",
    "SELECT format('%1$100000000s', 'x')",
    "SELECT strpos(format('%1$-100000000s', 'x'), 'y')",
    "SELECT format('%1$*2$s', 'x', 300000000)",
    "SELECT format(name, 'x') FROM devices",
    "SELECT 'x'::char(99999999)",
    "SELECT replace(repeat('x', 10000), 'x', repeat('y', 10000))",
    "SELECT regexp_replace(repeat('x', 100000), 'x', '" + "y" * 1000 + "', 'g')",
    "SELECT regexp_replace(repeat('x', 100000), 'x', name, 'g') FROM ships",
    "SELECT repeat(left(repeat('x', 100000), -1), 1000)",
    "SELECT array_to_string(string_to_array(repeat('x,', 100000), ','), repeat('y', 1000))",
    "SELECT array_to_string(string_to_array(repeat('x,', 100000), ','), ',', repeat('y', 1000))",
    "SELECT array_to_string(array_agg(NULL::text), ',', repeat('y', 1000)) FROM devices",
    # numbers with all their digits
    "SELECT json_agg(device_id::numeric(1000, 999)) FROM devices",
    "SELECT json_agg(device_id::numeric(10, -1000)) FROM devices",
    "SELECT json_agg(round(device_id, 16383)) FROM devices",
    "SELECT array_agg(trunc(temperature::numeric, device_id)) FROM device_readings",
    "SELECT '[" + ",".join(["1e131000"] * 300) + "]'::jsonb || '[1]'::jsonb",
    "SELECT jsonb_agg('1e131000'::jsonb) FROM devices",
    "SELECT jsonb_agg('-1E+0131000'::jsonb) FROM devices",
    "SELECT array_agg('1e131000' * 1.0) FROM devices",
    "SELECT array_agg(n) FROM (SELECT coalesce('1e131000', device_id::numeric) AS n FROM devices) q",
    "SELECT repeat('1e131000,', 300)::jsonb",
    "SELECT concat('[', repeat('1e131000,', 1000), '1]')::json::jsonb",
    "SELECT to_jsonb(repeat('1e131000,', 300)::json)",
    "SELECT string_to_array(repeat('1e131000,', 300), ',')::numeric[]",
    "SELECT '{" + ",".join(["1e131000"] * 300) + "}'::numeric[] || 1::numeric",
    "SELECT json_extract_path_text(json_build_object('a', repeat('1e131000,', 300)), 'a')::jsonb",
    "SELECT jsonb_agg(x::jsonb) FROM (SELECT concat('1e', '131000') AS x FROM devices) q",
    "SELECT replace(name, '-', '1e131000,')::jsonb FROM devices",
    "SELECT array_agg(concat('1e', '131000')::numeric) FROM devices",
    "SELECT array_agg('1e131_000' * 1.0) FROM devices",
    "SELECT count(*) FROM generate_series(1, 100000000000)",
    "SELECT count(*) FROM generate_series(1, 10000000, 2)",
    "SELECT count(*) FROM generate_series(0, 1000000)",
    "SELECT string_agg(a.name, b.name) FROM device_readings r, devices a, devices b, ships s",
    "SELECT array_agg(g) FROM generate_series(1, 100000) g, generate_series(1, 100000) h",
    "SELECT json_agg(d) FROM devices d, devices e, devices f",
    "SELECT ARRAY(SELECT name FROM devices, device_readings, ships)",
    "SELECT array_agg(n) FROM (SELECT generate_series(1, 1000000) AS n FROM devices) q",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT array_agg(n) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM r) SELECT max(length(n)) FROM r",
    "WITH RECURSIVE r(a, b) AS (SELECT 'x', 'y' UNION ALL SELECT a || b, b || a FROM r) SELECT length(a) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT ARRAY['x'] UNION ALL SELECT array_cat(n, n) FROM r) SELECT cardinality(n) FROM r",
    # values read through again and again in one row, in which the database does not look up
    *(
        f"SELECT {', '.join([call] * times)} FROM (SELECT repeat('[1],', 5000000) AS v OFFSET 0) q"
        for call, times in (
            ("starts_with(v, v)", 300),
            ("md5(v)", 40),
            ("v::jsonb ? 'x'", 40),
            ("length(initcap(v))", 40),
            ("v = v", 100),
            ("v IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')", 40),
            ("v BETWEEN 'a' AND 'b'", 100),
            ("CASE v WHEN 'a' THEN 1 WHEN 'b' THEN 2 WHEN 'c' THEN 3 END", 40),
            ("greatest(v, 'x') IS NULL", 100),
            ("regexp_count(v, 'a.*b')", 10),
            ("v ~ 'a.*b'", 10),
            ("(string_to_array(v, ','))[3]", 40),
            ("v::int > 1", 100),
            ("v::json -> 'x' IS NULL", 40),
            ("lower(v) IS NULL", 40),
        )
    ),
    "SELECT " + ", ".join(["v * v > 1"] * 60) + " FROM (SELECT 9.9::numeric ^ 60000 AS v OFFSET 0) q",
    "SELECT " + ", ".join(["sqrt(v) > 1"] * 60) + " FROM (SELECT 9.9::numeric ^ 60000 AS v OFFSET 0) q",
    # long numbers, multiplied again and again: written as a text, or doubled on the way
    *(
        f"{start} SELECT {', '.join(['n * n > 1'] * 60)} FROM {rows}"
        for start, rows in (
            ("", "(SELECT left('9e131000', 40)::numeric AS n) q"),
            ("", "(SELECT lpad('9e131000', 40)::numeric AS n) q"),
            ("", "(SELECT '9e131000'::varchar(40)::numeric AS n) q"),
            ("", "(SELECT substring(concat(name, '9e131000'), 1, 40)::numeric AS n FROM devices) q"),
            ("", reduce(lambda inner, _: f"(SELECT n * n AS n FROM {inner}) q", range(13), "(SELECT 9.9 AS n) q")),
            ("WITH RECURSIVE r(n, i) AS (SELECT 2.0, 1 UNION ALL SELECT n * n, i + 1 FROM r WHERE i < 18)", "r"),
            ("WITH RECURSIVE r(n, i) AS (SELECT 2.0, 1 UNION ALL SELECT n / 0.1, i + 1 FROM r WHERE i < 18)", "r"),
            (
                "WITH RECURSIVE r(x) AS (SELECT NULL UNION ALL SELECT left('9e131000', 40) FROM r WHERE x IS NULL)",
                "(SELECT x::numeric AS n FROM r) q",
            ),
        )
    ),
    # quadratic work, deaf to time limits and to cancelling
    "SELECT strpos(a.name, b.name) FROM devices a, devices b",
    "SELECT position(b.name IN a.name) FROM devices a, devices b",
    "SELECT strpos(repeat('a', 1000000), repeat('a', 100000))",
    "SELECT " + ", ".join(["strpos(repeat('a', 100000), repeat('a', 1000))"] * 30),
    "SELECT replace(a.name, b.name, '') FROM devices a, devices b",
    "SELECT split_part(repeat('a', 200000), repeat('a', 100000), 2)",
    "SELECT string_to_array(repeat('a', 200000), repeat('a', 100000))",
    "SELECT btrim(repeat('a', 100000), repeat('b', 100000))",
    "SELECT trim(BOTH kind FROM name) FROM devices",
    "SELECT translate(name, kind, '') FROM devices",
    "SELECT a.name LIKE b.name FROM devices a, devices b",
    "SELECT name ILIKE '%' || kind || '%' FROM devices",
    "SELECT name LIKE ANY (SELECT kind FROM devices) FROM devices",
    "SELECT ARRAY(SELECT device_id FROM device_readings) <@ ARRAY(SELECT device_id FROM device_readings)",
    "SELECT string_to_array(name, ',') && string_to_array(kind, ',') FROM devices",
    "SELECT to_jsonb(name) @> to_jsonb(kind) FROM devices",
]
FITS = [
    "SELECT upper(repeat('x', 12000000))",
    "SELECT strpos(name, 'x'), position('x' IN name), replace(name, '-', ' '), split_part(name, '-', 1) FROM devices",
    "SELECT strpos(left(a.name, 1000), left(b.name, 1000)) FROM devices a, devices b",
    "SELECT name ILIKE '%' || left(kind, 100) || '%' FROM devices",
    "SELECT btrim(name), trim(name), trim(BOTH '-' FROM name), translate(name, '-_', '  ') FROM devices",
    "SELECT string_to_array(name, '-') && ARRAY['a', 'b'], to_jsonb(name) @> '\"x\"' FROM devices",
    "SELECT repeat('*', 10) || name || repeat('-', 20), lpad(name, 30), rpad(device_id::text, 8, '0') FROM devices",
    "SELECT string_agg(name, ', ' ORDER BY name), array_agg(kind), json_agg(d) FROM devices d",
    "SELECT s.name, string_agg(d.name, ', ') FROM ships s JOIN devices d ON d.ship_id = s.ship_id GROUP BY s.name",
    "SELECT string_agg(d.name, ',') FROM device_readings r JOIN devices d ON d.device_id = r.device_id",
    "SELECT string_agg(d.name, ',') FROM device_readings r, devices d WHERE d.device_id = r.device_id",
    "SELECT string_agg(d.name, ',') FROM device_readings r JOIN devices d USING (device_id)",
    "SELECT (SELECT array_agg(r.temperature) FROM device_readings r WHERE r.device_id = d.device_id) FROM devices d",
    "SELECT array_agg(n) FROM (SELECT a.name AS n FROM devices a, devices b, devices c LIMIT 1000) q",
    "SELECT array_agg(day::date) FROM generate_series(date '2026-01-01', date '2026-12-31', interval '1 day') day",
    "SELECT day FROM generate_series((SELECT min(recorded_at) FROM device_readings), now(), interval '1 day') day",
    "WITH RECURSIVE r(n, path) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, path || '/' || n FROM r WHERE n < 9) "
    "SELECT n, path FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 'x' UNION ALL SELECT left(n || n, 99) FROM r WHERE length(n) < 9) SELECT n FROM r",
    "SELECT format('%s: %s', name, kind), format('%1$s-%2$s', name, kind) FROM devices",
    "SELECT regexp_replace(name, '[0-9]+', '', 'g'), name ~ '^tug', regexp_match(name, '([a-z]+)') FROM devices",
    "SELECT concat_ws(', ', name, kind, status), upper(name), to_char(installed_at, 'YYYY-MM-DD') FROM devices",
    "SELECT 2 * 6371 * asin(sqrt(power(sin(radians(a.temperature - b.temperature) / 2), 2) + "
    "cos(radians(a.temperature)) * cos(radians(b.temperature)) * power(sin(radians(a.humidity - b.humidity) / 2), 2))) "
    "FROM device_readings a, device_readings b",
    "SELECT "
    + ", ".join(f"lower(name) LIKE '%{letter}%' AS {letter}" for letter in "abcdefghijklmn")
    + " FROM devices",
    "SELECT CASE lower(name) WHEN 'a' THEN 1 WHEN 'b' THEN 2 END, upper(kind) IN ('A', 'B', 'C') FROM devices",
    "SELECT " + ", ".join(f"to_jsonb(name) ->> 'k{number}' AS k{number}" for number in range(30)) + " FROM devices",
    "SELECT name::json, kind::jsonb -> 'a', (name::json ->> 'payload')::jsonb, lower(name)::jsonb FROM devices",
    "SELECT jsonb_agg((name::jsonb ->> 'payload')::jsonb), json_agg(name::json) FROM devices",
    "SELECT '[1e3, 2.5e10]'::jsonb, '{1,2,3}'::numeric[], ARRAY[1, 2, 3]::numeric[], to_jsonb(device_id) FROM devices",
    "SELECT array_agg(device_id) FROM devices WHERE name IN ("
    + ", ".join(f"'550e8400-1e29-41d4-a716-4466554{n:05}'" for n in range(200))
    + ")",
    "SELECT json_agg(round(avg_t, 2)), array_agg(avg_t::numeric(10, 2)), json_agg(round(avg_t, -2)) "
    "FROM (SELECT avg(temperature)::numeric AS avg_t FROM device_readings GROUP BY device_id) q",
    "SELECT array_to_string(array_agg(name), ', ', '-') FROM devices GROUP BY status",
    "SELECT round(power(temperature, 2), 1)::text || ' K' FROM device_readings",
    # many products, of numbers that nothing makes long
    f"SELECT {', '.join(['t * t / 3 * 100'] * 60)} FROM (SELECT round(avg(temperature)::numeric, 2)::numeric AS t "
    "FROM device_readings) q",
    f"SELECT {', '.join(['sum(temperature * (1 - humidity) * 1.2)'] * 60)} FROM device_readings",
    "SELECT json_agg((temperature * humidity / 100)::numeric) FROM device_readings GROUP BY device_id",
    "WITH RECURSIVE r(n, f) AS (SELECT 1, 1.0 UNION ALL SELECT n + 1, f * (n + 1) / 2 FROM r WHERE n < 20) "
    "SELECT n, f, round(f / n, 2), f::text FROM r",
]


@pytest.mark.parametrize("sql", TOO_LARGE, ids=lambda sql: sql[:70])
def test_what_grows_or_works_too_much_is_refused(sql: str) -> None:
    with pytest.raises(ToolRefused) as refused:
        check_statement(sql, _catalog(rows=100_000))
    assert refused.value.reason == "too_large", refused.value.message


@pytest.mark.parametrize("sql", FITS, ids=lambda sql: sql[:70])
def test_what_stays_small_passes(sql: str) -> None:
    check_statement(sql, _catalog(rows=10_000))


def test_declared_lengths_count() -> None:
    both = "SELECT strpos(a.name, b.name) FROM devices a, devices b"
    check_statement(both, _catalog(kind="character varying(200)"))
    with pytest.raises(ToolRefused):
        check_statement(both, _catalog(kind="character varying(1000000)"))
