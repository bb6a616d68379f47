"""Which columns of a result count as read from a table: what a literal can put into one, and what it can't."""
# ruff: noqa: S608 - statements are what is compared here

from __future__ import annotations

import pytest

from services.sql_executor.statement import check_statement
from tests.unit.sql_executor.test_statement_check import _catalog

DASHES = "-" * 98
ZEROS = ",".join(["0"] * 97)
NULLS = ",".join(["NULL"] * 98)
IDS = ",".join(["device_id"] * 98)
SIGNS = "-," * 97

# Each brings out a number that the query states, by counting or measuring what it says beside what it reads.
STATED = [
    f"SELECT length('{DASHES}' || left(name,0)) AS failed FROM devices LIMIT 1",
    f"SELECT length(concat('{DASHES}', left(min(name),0))) AS failed FROM devices",
    f"SELECT cardinality(ARRAY[{ZEROS},min(device_id)]) AS failed FROM devices",
    f"SELECT num_nulls({NULLS},min(device_id)) AS failed FROM devices",
    f"SELECT num_nonnulls({IDS}) AS failed FROM devices",
    f"SELECT cardinality(ARRAY[{IDS}]) AS failed FROM devices",
    "SELECT ascii('-' || name) FROM devices",
    f"SELECT array_length(string_to_array('{SIGNS}-' || left(min(name),0), ','),1) AS failed FROM devices",
    "SELECT count(*) AS n FROM (VALUES (1),(2),(3)) v LEFT JOIN devices d ON false",
    "SELECT count(*) AS n FROM generate_series(1,98) v LEFT JOIN devices d ON false",
    "SELECT count(v) AS n FROM generate_series(1,98) v LEFT JOIN devices d ON false",
    "SELECT rank(98) WITHIN GROUP (ORDER BY device_id) n FROM devices",
    f"SELECT length(a) FROM (SELECT '{DASHES}' || left(name,0) AS a FROM devices) t",
    f"WITH c AS (SELECT '{DASHES}' || left(name,0) AS a FROM devices) SELECT length(a) FROM c",
    f"SELECT length((SELECT '{DASHES}' || left(name,0) FROM devices LIMIT 1)) AS n",
    "SELECT count(*) FROM (SELECT v FROM generate_series(1,98) v LEFT JOIN devices ON false) t",
    "SELECT count(*) FROM (SELECT 1 FROM generate_series(1,98) WHERE EXISTS (SELECT FROM devices)) t",
    "SELECT count(*) FROM (SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT device_id FROM devices WHERE false) t",
    "SELECT count(*) FROM (SELECT generate_series(1,98) FROM devices) t",
    "SELECT count(*) FROM (SELECT 1 FROM devices GROUP BY GROUPING SETS ((),(),())) t",
    "SELECT count(*) OVER () FROM devices GROUP BY GROUPING SETS ((),(),())",
    "SELECT row_number() OVER () FROM devices GROUP BY ROLLUP (kind)",
    "SELECT count(*) FROM devices GROUP BY device_id, unnest(ARRAY[0,0,0])",
    "SELECT count(*) FROM devices GROUP BY unnest(ARRAY[0,0,0])",
    "SELECT cardinality(array_agg(d.device_id)) FROM generate_series(1,98) v LEFT JOIN devices d ON false",
    "SELECT sum(CASE WHEN d.name IS NOT NULL THEN 1 ELSE 0 END) FROM generate_series(1,98) v, (SELECT name "
    "FROM devices LIMIT 1) d",
    "SELECT sum(d.device_id) FROM generate_series(1,98) v, (SELECT device_id FROM devices LIMIT 1) d",
    "SELECT avg((d.device_id IS NOT NULL)::int) * 100 FROM generate_series(1,100) v LEFT JOIN (SELECT "
    "device_id FROM devices LIMIT 1) d ON v <= 98",
    "SELECT (SELECT count(v) FROM devices LIMIT 1) AS n FROM generate_series(1,98) v",
    "SELECT (SELECT count(d.device_id) FROM ships LIMIT 1) AS n FROM generate_series(1,98) v, (SELECT "
    "device_id FROM devices LIMIT 1) d",
    "SELECT (SELECT count(*) FILTER (WHERE v > 0) FROM devices LIMIT 1) AS n FROM generate_series(1,98) v",
    "SELECT count(*) OVER (ORDER BY device_id ROWS BETWEEN 97 PRECEDING AND CURRENT ROW) FROM devices",
    "SELECT count(*) OVER (ORDER BY device_id GROUPS 97 PRECEDING) FROM devices",
    "SELECT count(*) OVER w FROM devices WINDOW w AS (ORDER BY device_id ROWS 97 PRECEDING)",
    "SELECT cardinality(array_agg(device_id) OVER (ORDER BY device_id ROWS 97 PRECEDING)) FROM devices",
    "SELECT ntile(98) OVER (ORDER BY device_id) FROM devices",
    "SELECT dense_rank() OVER (ORDER BY device_id % 98) FROM devices",
    "SELECT count(DISTINCT device_id % 98) FROM devices",
    "SELECT octet_length(name::char(98)) FROM devices",
    "SELECT length(name::varchar(5)) FROM devices",
    "SELECT scale(max(device_id)::numeric * 1.0000000) FROM devices",
    "SELECT scale(round(max(device_id)::numeric, 98)) FROM devices",
    "SELECT scale(max(device_id)::numeric + 0.0000000) FROM devices",
    "SELECT length((max(device_id)::numeric * 1.0000000)::text) FROM devices",
    "SELECT length(left(string_agg(name, ''), 98)) FROM devices",
    "SELECT length(substring(string_agg(name, ''), 1, 98)) FROM devices",
    "SELECT length(substring(string_agg(name, '') from '.{98}')) FROM devices",
    "SELECT cardinality((array_agg(device_id))[1:98]) FROM devices",
    "SELECT length(to_char(min(installed_at), 'YYYYYYYYYYYYYYYYYYYYYYYY')) FROM devices",
    'SELECT cardinality(\'{"-","-","-"}\'::text[] || array_agg(name)) FROM devices',
    f"SELECT json_array_length(json_build_array({IDS})) FROM devices",
    "SELECT jsonb_array_length(to_jsonb(ARRAY[device_id, device_id])) FROM devices",
    "SELECT count(*) FROM devices, unnest(ARRAY[device_id, device_id, device_id])",
    "SELECT count(*) FROM devices, string_to_table('-,-,-,-' || left(name, 0), ',') s",
    "SELECT count(*) / (1.0 / 98) FROM devices",
    "SELECT count(*) / 0.0102 FROM devices",
    "SELECT extract(epoch FROM (max(installed_at) AT TIME ZONE INTERVAL '98 seconds') - (max(installed_at) AT "
    "TIME ZONE 'UTC')) FROM devices",
    "SELECT max(installed_at) AT TIME ZONE 'XXX-9:08' FROM devices",
    "SELECT extract(second FROM date_bin('1 minute', max(installed_at), '2000-01-01 00:00:38')) FROM devices",
    "SELECT extract(year FROM date_bin('300000 days', max(installed_at), timestamp '1998-01-01')) FROM devices",
    "SELECT date_trunc('day', installed_at, 'XXX-9:08') FROM devices",
    "SELECT extract(year FROM date_bin('300000 days', max(installed_at), '2001-01-01')) FROM devices",
    "WITH RECURSIVE n(i, s) AS (SELECT 1, name FROM ships UNION ALL SELECT i + 1, s FROM n WHERE i < 98) "
    "SELECT count(*) FROM n",
    "WITH RECURSIVE n(i, s) AS (SELECT 1, left(name, 0) FROM ships UNION ALL SELECT i + 1, s || '-' FROM n "
    "WHERE i < 98) SELECT max(length(s)) FROM n",
    "SELECT cardinality(ARRAY(SELECT d.device_id FROM generate_series(1,98) v LEFT JOIN devices d ON false)) "
    "AS n FROM ships",
    "SELECT md5('-' || name) FROM devices",
    f"SELECT bit_length('{DASHES}' || name), char_length(name || '{DASHES}') FROM devices",
    "SELECT regexp_count('----' || name, '-') FROM devices",
    "SELECT json_array_length(('[[],[],[]]')::json) FROM devices",
    "SELECT width_bucket(device_id, 0, 98, 98) FROM devices",
    "SELECT count(*) FROM ((SELECT 1) UNION ALL (SELECT device_id FROM devices)) t",
    "SELECT count(*) FROM (generate_series(1,98) v LEFT JOIN devices d ON false) AS j",
    "SELECT count(*) FROM (SELECT device_id FROM devices) d FULL JOIN generate_series(1,98) v ON false",
    "SELECT regr_count(d.device_id, d.device_id) FROM generate_series(1,98) v, (SELECT device_id FROM devices "
    "LIMIT 1) d",
    "SELECT lpad(name, 0) FROM devices",
    "SELECT jsonb_array_length(jsonb_build_array(0,0,0,0,min(device_id))) FROM devices",
    "SELECT array_length(ARRAY[min(device_id), 0, 0], 1) FROM devices",
    "SELECT cardinality(array_append(array_agg(device_id), 0)) FROM devices",
    "SELECT array_length(regexp_split_to_array('-,-,-' || min(name), ','), 1) FROM devices",
    "SELECT length(format('----', name)) FROM devices",
    "SELECT length(quote_literal('---' || name)) FROM devices",
    "SELECT length(replace('-------', '-', left(name, 1))) FROM devices",
    "SELECT length(a.b) FROM (SELECT coalesce(left(name, 0), NULL) || '----' AS b FROM devices) a",
    "SELECT length(x) FROM devices, LATERAL (SELECT '----' || name) AS t(x)",
    "SELECT length(greatest(left(name, 0), '------')) FROM devices",
    "SELECT length(lag(left(name, 0), 1, '-------') OVER ()) FROM devices",
    "SELECT length(CASE WHEN name IS NULL THEN name ELSE '-----' END) FROM devices",
    "SELECT ascii(CASE WHEN name IS NULL THEN name ELSE '-' END) FROM devices",
    "SELECT count(*) FROM (SELECT max(device_id), generate_series(1, 98) FROM devices) t, (SELECT device_id "
    "FROM devices LIMIT 1) d",
    "SELECT count(*) FROM (SELECT max(device_id) FROM devices ORDER BY generate_series(1, 98)) t, (SELECT "
    "device_id FROM devices LIMIT 1) d",
    "SELECT count(*) FROM generate_series(1, 98) v, LATERAL (SELECT 1 FROM devices LIMIT 1) d",
]
READ = [
    "SELECT date_bin('6 hours', recorded_at, timestamptz '2026-01-01') AS slot FROM device_readings",
    "SELECT count(*) FROM devices",
    "SELECT avg(temperature), min(temperature), stddev(temperature) FROM device_readings",
    "SELECT sum(case when temperature > 5 then 1 else 0 end) FROM device_readings",
    "SELECT count(*) filter (where temperature > 5) FROM device_readings",
    "SELECT coalesce(sum(temperature), 0), coalesce(name, '-') FROM device_readings JOIN devices USING "
    "(device_id) GROUP BY name",
    "SELECT round(coalesce(avg(temperature), 0)::numeric, 2) FROM device_readings",
    "SELECT date_trunc('hour', recorded_at), extract(hour FROM date_trunc('day', recorded_at)) FROM device_readings",
    "SELECT length(name), upper(name), char_length(trim(name)), md5(name) FROM devices",
    "SELECT max(length(name)), avg(length(name)) FROM devices",
    "SELECT array_length(string_to_array(name, ' '), 1) FROM devices",
    "SELECT cardinality(array_agg(device_id)), jsonb_array_length(jsonb_agg(name)) FROM devices",
    "SELECT array_length(array_agg(DISTINCT kind), 1) FROM devices",
    "SELECT count(DISTINCT kind), count(DISTINCT date_trunc('day', installed_at)) FROM devices",
    "SELECT d.name, count(r.reading_id) FROM devices d LEFT JOIN device_readings r USING (device_id) GROUP BY d.name",
    "WITH p AS (SELECT now() - interval '1 day' AS since) SELECT count(*), avg(temperature) FROM "
    "device_readings, p WHERE recorded_at > p.since",
    "SELECT count(*) FROM devices, (SELECT avg(temperature) AS m FROM device_readings) a",
    "SELECT avg(temperature) OVER (ORDER BY recorded_at ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM device_readings",
    "SELECT count(*) OVER (), count(*) OVER (PARTITION BY kind), sum(device_id) OVER (ORDER BY device_id) FROM devices",
    "SELECT count(*) OVER (ORDER BY recorded_at RANGE BETWEEN '1 hour' PRECEDING AND CURRENT ROW) FROM device_readings",
    "SELECT row_number() OVER w, rank() OVER w, lag(name, 1) OVER w FROM devices WINDOW w AS (ORDER BY name)",
    "SELECT kind, count(*) FROM devices GROUP BY ROLLUP (kind)",
    "SELECT count(*) FROM (SELECT DISTINCT ship_id FROM devices) t",
    "SELECT count(*) FROM (SELECT name FROM devices UNION ALL SELECT name FROM ships) t",
    "SELECT d.name, (SELECT count(*) FROM device_readings r WHERE r.device_id = d.device_id) FROM devices d",
    "SELECT d.name, (SELECT count(r.temperature) FROM device_readings r WHERE r.device_id = d.device_id) FROM "
    "devices d",
    "SELECT count(*) FROM ships s, LATERAL (SELECT s.name) t",
    "SELECT count(*) FROM ships, unnest(string_to_array(name, ' ')) AS part",
    "SELECT percentile_cont(0.98) WITHIN GROUP (ORDER BY temperature) FROM device_readings",
    "SELECT 100.0 * count(*) FILTER (WHERE kind = 'a') / NULLIF(count(*), 0) FROM devices",
    "SELECT sum(coalesce(temperature, 0)) / count(*), (max(temperature) - min(temperature))::numeric(10,2) "
    "FROM device_readings",
    "SELECT name || ' (' || kind || ')', concat(name, ' ', kind), concat_ws('-', name, kind), "
    "string_agg(name, ', ') FROM devices GROUP BY name, kind",
    "SELECT date_bin('15 minutes', recorded_at, '2000-01-01'), date_bin('1 day', recorded_at, timestamp "
    "'2001-01-01 00:00:00') FROM device_readings",
    "SELECT recorded_at AT TIME ZONE 'Europe/Berlin', date_trunc('day', recorded_at, 'Asia/Tokyo') FROM "
    "device_readings",
    "SELECT cardinality(ARRAY(SELECT name FROM devices)) AS n",
    "SELECT bool_or(coalesce(is_online, false) AND kind = 'a') FROM (SELECT kind = 'b' AS is_online, kind "
    "FROM devices) t",
    "SELECT CASE WHEN count(*) > 0 THEN sum(temperature) END FROM device_readings",
    "SELECT extract(epoch FROM max(recorded_at) - min(recorded_at)) / 3600 AS hours FROM device_readings",
    "SELECT to_char(date_trunc('month', recorded_at), 'YYYY-MM') FROM device_readings",
    "SELECT (array_agg(name ORDER BY device_id))[1], (string_to_array(name, '-'))[1] FROM devices GROUP BY name",
    "SELECT to_json(s) FROM ships s",
    "SELECT json_agg(json_build_array(name, kind)) FROM ships",
    "SELECT count(*) FROM device_readings a JOIN device_readings b USING (device_id)",
    "SELECT corr(temperature, humidity), regr_slope(temperature, humidity) FROM device_readings",
    "SELECT greatest(temperature, humidity), abs(temperature), floor(temperature) FROM device_readings",
    "SELECT split_part(name, '-', 2)::int FROM devices",
    "SELECT sum(1), count(1) FROM devices",
    "SELECT count(*) - count(temperature) AS missing FROM device_readings",
    "SELECT (SELECT count(r.temperature) FROM device_readings r WHERE r.recorded_at > p.since) FROM (SELECT "
    "now() AS since) p",
]


@pytest.mark.parametrize("sql", STATED)
def test_a_number_that_the_query_brings_out_is_stated(sql: str) -> None:
    assert check_statement(sql, _catalog()).stated_columns


@pytest.mark.parametrize("sql", READ)
def test_what_tables_hold_is_read(sql: str) -> None:
    assert not check_statement(sql, _catalog()).stated_columns


def test_a_recursive_query_may_return_other_columns_than_it_began_with() -> None:
    """The database refuses it; the check has to get there."""
    for begun, then in (("device_id", "1, 2"), ("1, device_id", "1")):
        sql = f"WITH RECURSIVE n AS (SELECT {begun} FROM devices UNION ALL SELECT {then} FROM n) SELECT * FROM n"
        assert check_statement(sql, _catalog()).stated_columns
