"""Queries that analysts ask: each must pass the check and give what the database gives for the same rows."""

ANALYST_QUERIES = [
    "SELECT count(*) FROM devices",
    "SELECT count(*) FROM device_current_data WHERE temperature > 10",
    "SELECT * FROM users",
    "SELECT u.* FROM users AS u ORDER BY u.user_id LIMIT 3;",
    "SELECT name, kind AS what FROM devices WHERE status = 'active' OR status = 'offline' ORDER BY name",
    "SELECT d.name, c.temperature FROM devices d JOIN device_current_data c ON c.device_id = d.device_id "
    "WHERE c.temperature > 10 ORDER BY c.temperature DESC, d.device_id LIMIT 5",
    "SELECT d.name, c.battery FROM devices d LEFT JOIN device_current_data c USING (device_id) ORDER BY device_id",
    "SELECT d.device_id, c.status FROM devices d LEFT OUTER JOIN device_current_data c ON c.device_id = d.device_id "
    "AND c.status <> 'ok' ORDER BY d.device_id",
    "SELECT s.name, count(d.device_id) FROM ships s LEFT JOIN devices d ON d.ship_id = s.ship_id "
    "GROUP BY s.ship_id ORDER BY s.ship_id",
    "SELECT s.name, d.name FROM devices d RIGHT JOIN ships s ON s.ship_id = d.ship_id ORDER BY s.ship_id, d.device_id",
    "SELECT s.ship_id, d.device_id FROM ships s FULL JOIN devices d ON d.ship_id = s.ship_id + 100 ORDER BY 1, 2",
    "SELECT kind, avg(temperature)::numeric(8, 2) AS mean FROM devices NATURAL JOIN "
    "(SELECT device_id, temperature FROM device_readings) r GROUP BY kind HAVING count(*) > 10 ORDER BY mean",
    "SELECT d.name, count(*) FILTER (WHERE r.temperature > 15) AS warm, count(*) AS every FROM devices d "
    "JOIN device_readings r ON r.device_id = d.device_id GROUP BY d.device_id ORDER BY d.device_id",
    "SELECT date_trunc('day', recorded_at) AS day, round(avg(temperature), 2) FROM device_readings "
    "WHERE recorded_at >= timestamptz '2026-01-25' GROUP BY 1 ORDER BY 1",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY temperature) AS median, "
    "percentile_cont(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY temperature) AS range FROM device_readings",
    "WITH hot AS (SELECT device_id, max(temperature) AS top FROM device_readings GROUP BY device_id) "
    "SELECT d.name, hot.top FROM hot JOIN devices d USING (device_id) WHERE hot.top > 20 ORDER BY 2 DESC, 1",
    "WITH daily AS (SELECT device_id, recorded_at::date AS day, avg(temperature) AS mean FROM device_readings "
    "GROUP BY 1, 2), ranked AS (SELECT *, row_number() OVER (PARTITION BY device_id ORDER BY mean DESC, day) AS place "
    "FROM daily) SELECT device_id, day, round(mean, 1) FROM ranked WHERE place = 1 ORDER BY device_id",
    "SELECT device_id, temperature - lag(temperature) OVER (PARTITION BY device_id ORDER BY recorded_at) AS step "
    "FROM device_readings WHERE recorded_at > '2026-01-31 08:00+00' ORDER BY device_id, recorded_at",
    "SELECT name, rank() OVER w, dense_rank() OVER w, ntile(4) OVER w FROM devices "
    "WINDOW w AS (ORDER BY installed_at) ORDER BY installed_at, device_id",
    "SELECT recorded_at, avg(temperature) OVER (ORDER BY recorded_at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) "
    "FROM device_readings WHERE device_id = 33 ORDER BY recorded_at LIMIT 10",
    "SELECT CASE WHEN battery < 20 THEN 'low' WHEN battery < 50 THEN 'middle' ELSE 'high' END AS charge, count(*) "
    "FROM device_current_data GROUP BY 1 ORDER BY 1",
    "SELECT status, count(*) FROM devices GROUP BY ROLLUP (status) ORDER BY status NULLS LAST",
    "SELECT kind, status, count(*), grouping(kind) FROM devices GROUP BY GROUPING SETS ((kind), (status), ()) "
    "ORDER BY kind NULLS FIRST, status NULLS FIRST",
    "SELECT device_id FROM devices WHERE status = 'active' UNION SELECT device_id FROM device_current_data "
    "WHERE temperature > 0 ORDER BY 1",
    "SELECT device_id FROM devices EXCEPT SELECT device_id FROM device_current_data ORDER BY 1",
    "SELECT name FROM devices d WHERE EXISTS (SELECT 1 FROM device_readings r WHERE r.device_id = d.device_id "
    "AND r.temperature > 20) ORDER BY name",
    "SELECT name FROM devices WHERE device_id NOT IN (SELECT device_id FROM device_current_data) ORDER BY name",
    "SELECT d.name, latest.temperature FROM devices d CROSS JOIN LATERAL (SELECT temperature FROM device_readings r "
    "WHERE r.device_id = d.device_id ORDER BY recorded_at DESC LIMIT 1) latest ORDER BY d.name",
    "SELECT DISTINCT ON (kind) kind, name FROM devices ORDER BY kind, installed_at DESC, name",
    "SELECT g.day, count(r.reading_id) FROM generate_series(date '2026-01-28', date '2026-01-31', interval '1 day') "
    "AS g(day) LEFT JOIN device_readings r ON date_trunc('day', r.recorded_at) = g.day GROUP BY g.day ORDER BY g.day",
    "SELECT extract(hour FROM recorded_at) AS hour, round(avg(humidity), 1) FROM device_readings "
    "GROUP BY hour ORDER BY hour",
    "SELECT to_char(recorded_at, 'YYYY-MM') AS month, min(temperature), max(temperature) FROM device_readings "
    "GROUP BY 1 ORDER BY 1",
    "SELECT name, installed_at FROM devices WHERE installed_at < timestamptz '2026-01-31' - interval '1 year 2 months' "
    "ORDER BY installed_at, name",
    "SELECT name FROM devices WHERE name ILIKE '%COLD%' OR name LIKE 'tug!_%' ESCAPE '!' ORDER BY 1",
    "SELECT upper(name) || ' (' || kind || ')' AS label, length(name) FROM devices ORDER BY label LIMIT 4",
    "SELECT string_agg(name, ', ' ORDER BY name), array_agg(DISTINCT kind ORDER BY kind) FROM devices",
    "SELECT json_agg(json_build_object('name', name, 'kind', kind) ORDER BY name) FROM devices",
    "SELECT coalesce(humidity, -1), nullif(battery, 0), greatest(temperature, 0), 7 / 2, 7 % 4, -7.5, 2 ^ 3 "
    "FROM device_current_data ORDER BY device_id LIMIT 3",
    "SELECT count(*) FROM device_readings WHERE temperature BETWEEN 5 AND 15 AND humidity IS NOT NULL "
    "AND NOT pressure > 1020",
    "SELECT round(corr(temperature, humidity)::numeric, 4), round(stddev_samp(temperature), 4), mode() WITHIN GROUP "
    "(ORDER BY battery) FROM device_readings",
    "SELECT a.name AS one, b.name AS other FROM devices a JOIN devices b ON a.ship_id = b.ship_id "
    "AND a.device_id < b.device_id ORDER BY 1, 2 LIMIT 5",
    "SELECT v.label, count(c.device_id) FROM (VALUES (0, 50, 'low'), (50, 101, 'high')) AS v(bottom, top, label) "
    "LEFT JOIN device_current_data c ON c.battery >= v.bottom AND c.battery < v.top GROUP BY v.label ORDER BY v.label",
    "SELECT s.name FROM ships s WHERE (s.ship_id, s.home_port) IN (SELECT ship_id, 'Bergen' FROM devices) ORDER BY 1",
    "WITH RECURSIVE years(y) AS (SELECT 2023 UNION ALL SELECT y + 1 FROM years WHERE y < 2026) "
    "SELECT y, (SELECT count(*) FROM devices WHERE extract(year FROM installed_at) <= y) FROM years ORDER BY y",
    "SELECT date_bin('6 hours', recorded_at, timestamptz '2026-01-01') AS slot, count(*) FROM device_readings "
    "GROUP BY slot ORDER BY slot DESC LIMIT 4",
    "SELECT (SELECT count(*) FROM devices) AS devices, (SELECT max(recorded_at) FROM device_readings) AS newest",
    "SELECT count(*) FROM public.devices AS d WHERE d.kind = ANY (ARRAY['cabin', 'cold_store'])",
    'SELECT name FROM devices ORDER BY name COLLATE "C" FETCH FIRST 3 ROWS ONLY',
    "SELECT sum(battery) / nullif(count(*), 0) AS mean FROM device_current_data "
    "WHERE updated_at > now() - interval '100 years'",
    "SELECT q.count, q.avg FROM (SELECT count(*), avg(temperature) FROM device_readings) q",
    "SELECT q.day, q.case FROM (SELECT recorded_at::date AS day, CASE WHEN temperature > 10 THEN 1 END "
    "FROM device_readings ORDER BY reading_id LIMIT 3) q",
    "SELECT x.name, x.temperature FROM (SELECT d.*, c.temperature FROM devices d "
    "JOIN device_current_data c USING (device_id)) x ORDER BY x.device_id",
    "SELECT d.name FROM devices d WHERE EXISTS (SELECT 1 FROM device_readings d JOIN ships s "
    "ON d.reading_id > s.ship_id WHERE d.temperature > 20) ORDER BY d.name",
    "SELECT x.name, u.part, ord FROM (SELECT name FROM devices) x "
    "CROSS JOIN LATERAL unnest(string_to_array(x.name, '-')) WITH ORDINALITY AS u(part, ord) ORDER BY x.name, u.ord",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT t.n + 1 FROM t WHERE t.n < 5) SELECT t.n FROM t ORDER BY t.n",
    "SELECT j.kind, v.column1 FROM (devices d JOIN users u ON TRUE) AS j, (VALUES (1), (2)) v "
    "ORDER BY j.device_id, v.column1",
    # Spellings that are harmless, and easily refused or mistaken.
    """SELECT '{"": 7, "a": {"": "x"}}'::jsonb -> '' AS nameless, '{"a": {"": "x"}}'::jsonb -> 'a' ->> '' AS text""",
    "SELECT name FROM devices WHERE kind <> ALL (ARRAY['cabin', 'cold_store']) ORDER BY name",
    "SELECT name FROM devices WHERE NOT kind = ANY ('{cabin,cold_store}'::text[]) ORDER BY name",
    'SELECT max(temperature) AS °C, min(pressure) AS µbar, count(*) AS "°F µ" FROM device_current_data',
    "SELECT t.µ FROM (SELECT device_id AS µ FROM devices) AS t ORDER BY t.µ",
    "VALUES (1, 'one'), (2, 'two'), (3, NULL)",
    "VALUES (2), (1) ORDER BY 1 LIMIT 1",
    "SELECT row_to_json(d) FROM (SELECT device_id, name FROM devices ORDER BY device_id LIMIT 3) d",
    "SELECT row_to_json(ROW(device_id, name)) FROM devices ORDER BY device_id LIMIT 3",
    """SELECT key, value FROM jsonb_each_text('{"a": 1, "b": null, "c": "x"}'::jsonb) ORDER BY key""",
    "SELECT e.key, e.value FROM devices d CROSS JOIN LATERAL jsonb_each_text(jsonb_build_object('name', d.name, "
    "'kind', d.kind)) e ORDER BY d.device_id, e.key",
    r"SELECT regexp_replace(name, '[0-9]+', '#', 'g'), regexp_replace(name, '^(.)(.*)$', '\2\1') FROM devices "
    "ORDER BY device_id",
    "SELECT format('%s (%s)', name, kind), format('%L and %I, %2$s', 'it''s', 'a b') FROM devices ORDER BY device_id",
    "SELECT $$it's$$ AS plain, $q$a $$ b$q$ AS tagged, name FROM devices WHERE kind = $$cabin$$ ORDER BY name",
    r"SELECT E'a\tb\n\x41\u00e9\'' AS escaped, E'' AS nothing, name FROM devices WHERE name LIKE E'%\\_%' "
    r"OR kind = E'cab\151n' ORDER BY name",
    "SELECT (d).name FROM devices d ORDER BY (d).device_id",
    "SELECT jsonb_pretty(jsonb_build_object('n', count(*))) FROM devices",
    """SELECT jsonb_path_query_first(jsonb_build_object('a', jsonb_agg(name ORDER BY name)), '$.a[1]') FROM devices""",
    "SELECT count(DISTINCT gen_random_uuid()) FROM devices",
    "SELECT jsonb_build_object('name', name, 'kind', kind) - ARRAY['kind'] AS short FROM devices ORDER BY device_id",
    "SELECT count(*) FROM devices TABLESAMPLE bernoulli (100)",
    "SELECT u.name, count(d.name) FROM users u LEFT JOIN devices d TABLESAMPLE system (100) REPEATABLE (7) ON TRUE "
    "GROUP BY u.name ORDER BY u.name",
]
