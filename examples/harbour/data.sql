-- The rows of the harbour world. Everything follows from the seed in pg_temp.noise and the reference time: no random(),
-- no now(), so that every load holds the same rows.

-- Noise in [0, 1): the same for the same digest, on every machine and version. A digest holds four of them.
CREATE FUNCTION pg_temp.digest(a integer, b integer, salt text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT md5(salt || ':' || a || ':' || b || ':harbour-1') $$;
CREATE FUNCTION pg_temp.part(digest text, number integer) RETURNS double precision LANGUAGE sql IMMUTABLE AS
$$ SELECT ('x' || substr(digest, number * 8 - 7, 8))::bit(32)::bigint / 4294967296::float8 $$;
CREATE FUNCTION pg_temp.noise(a integer, b integer, salt text) RETURNS double precision LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_temp.part(pg_temp.digest(a, b, salt), 1) $$;

-- The world's present: its newest reading is from this hour.
CREATE FUNCTION pg_temp.present() RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT '2026-01-31 12:00+00'::timestamptz $$;

INSERT INTO public.users (user_id, name, email, created_at)
SELECT
    n,
    'Operator ' || n,
    'operator' || n || '@harbour.example',
    '2024-01-01 08:00+00'::timestamptz + n * interval '9 days 5 hours'
FROM generate_series(1, 40) AS n;

INSERT INTO public.ships (ship_id, name, kind, home_port, built_year) VALUES
    (1, 'Ardent Tern', 'ferry', 'Aberdeen', 2009),
    (2, 'Baltic Heron', 'container', 'Gdansk', 2015),
    (3, 'Coral Petrel', 'tanker', 'Rotterdam', 2012),
    (4, 'Dawn Plover', 'trawler', 'Bergen', 1998),
    (5, 'Ebb Runner', 'tug', 'Rotterdam', 2018),
    (6, 'Fjord Lantern', 'ferry', 'Bergen', 2020),
    (7, 'Grey Skerry', 'research', 'Aberdeen', 2016),
    (8, 'High Water', 'tug', 'Gdansk', 2005),
    (9, 'Iron Gannet', 'container', 'Rotterdam', 2021),
    (10, 'Juniper Sound', 'trawler', 'Aberdeen', 2003),
    (11, 'Kelp Maiden', 'tanker', 'Gdansk', 2010),
    (12, 'Long Meridian', 'research', 'Bergen', 2023);

-- Ten devices a ship. Every 17th is retired, every 13th offline, every 11th in maintenance.
INSERT INTO public.devices (device_id, ship_id, name, kind, status, installed_at)
SELECT
    n,
    1 + (n - 1) / 10,
    replace(kind, '_', '-') || '-' || lpad(n::text, 3, '0'),
    kind,
    CASE WHEN n % 17 = 0 THEN 'retired' WHEN n % 13 = 0 THEN 'offline' WHEN n % 11 = 0 THEN 'maintenance' ELSE 'active' END,
    '2023-03-01 06:00+00'::timestamptz + floor(pg_temp.noise(n, 0, 'installed') * 900) * interval '1 day'
FROM (
    SELECT n, (ARRAY['engine_room', 'cold_store', 'cargo_hold', 'cabin', 'weather_deck', 'fuel_tank'])[
        1 + floor(pg_temp.noise(n, 0, 'kind') * 6)::integer
    ] AS kind
    FROM generate_series(1, 120) AS n
) AS drawn;

-- Users 21 to 40 each watch six devices in a row, and some devices have a second watcher. Two are drawn by hand: user 27
-- watches the Dawn Plover and the first devices of the Ebb Runner, user 31 watches the Grey Skerry, and they share
-- cold-store-040. The last four devices of the Long Meridian belong to nobody: only an admin sees them.
INSERT INTO public.user_device_assignment (user_id, device_id)
SELECT 21 + (n - 1) / 6, n FROM generate_series(1, 116) AS n WHERE 21 + (n - 1) / 6 NOT IN (27, 31)
UNION SELECT 27, n FROM generate_series(31, 43) AS n
UNION SELECT 31, n FROM generate_series(61, 70) AS n
UNION VALUES (31, 40)
UNION SELECT 21 + floor(pg_temp.noise(n, 0, 'second watcher') * 6)::integer, n
FROM generate_series(45, 115, 5) AS n WHERE n NOT BETWEEN 61 AND 70
ORDER BY 1, 2;

-- What is normal where: mean temperature, its daily swing, its noise, mean humidity.
CREATE TEMPORARY TABLE climate (kind text PRIMARY KEY, mean float8, swing float8, spread float8, humidity float8) ON COMMIT DROP;
INSERT INTO climate VALUES
    ('engine_room', 44, 4, 18, 35),
    ('cold_store', -17, 0.5, 4, 70),
    ('cargo_hold', 11, 2, 5, 60),
    ('cabin', 21, 1.5, 3, 45),
    ('weather_deck', 6, 4, 8, 80),
    ('fuel_tank', 15, 1, 4, 50);

-- An hourly reading for 1,000 hours. Retired devices never report; offline ones stopped up to twenty days ago; one reading
-- in 400 spikes by 18 degrees. Batteries drain at a pace of their own and are changed when empty.
INSERT INTO public.device_readings (reading_id, device_id, recorded_at, temperature, humidity, pressure, battery)
WITH pace AS MATERIALIZED (
    SELECT
        *,
        (pg_temp.noise(device_id, 0, 'bias') - 0.5) * spread AS bias,
        0.03 + pg_temp.noise(device_id, 0, 'drain') * 0.12 AS drain,
        pg_temp.noise(device_id, 0, 'used') * 60 AS used,
        CASE WHEN status = 'offline' THEN 24 + floor(pg_temp.noise(device_id, 0, 'stopped') * 456)::integer ELSE 0 END AS stopped
    FROM public.devices JOIN climate USING (kind)
    WHERE status <> 'retired'
),
drawn AS MATERIALIZED (
    SELECT pace.*, ago, pg_temp.digest(device_id, ago, 'reading') AS digest
    FROM pace, generate_series(stopped, 999) AS ago
)
SELECT
    row_number() OVER (ORDER BY ago DESC, device_id),
    device_id,
    pg_temp.present() - ago * interval '1 hour',
    mean + bias + swing * sin((12 - ago) * pi() / 12) + (pg_temp.part(digest, 1) - 0.5) * spread * 0.5
        + CASE WHEN pg_temp.part(digest, 2) < 0.0025 THEN 18 ELSE 0 END,
    CASE WHEN device_id % 29 <> 0 THEN least(100, humidity + (pg_temp.part(digest, 3) - 0.5) * 20) END,
    1012 + 9 * sin(ago / 41.0) + (pg_temp.part(digest, 4) - 0.5) * 2,
    100 - (drain * (1000 - ago) + used)::numeric % 97
FROM drawn
ORDER BY 1;

INSERT INTO public.device_current_data (device_id, temperature, humidity, pressure, battery, status, updated_at)
SELECT DISTINCT ON (device_id)
    device_id, temperature, humidity, pressure, battery,
    CASE
        WHEN temperature > 55 OR battery < 10 THEN 'critical'
        WHEN temperature > 45 OR battery < 20 THEN 'warning'
        ELSE 'ok'
    END,
    recorded_at
FROM public.device_readings
ORDER BY device_id, recorded_at DESC;

-- Nothing here opens anything: the hashes and keys are digests of their own names.
INSERT INTO public.admin (admin_id, login, password_hash, api_key, note)
SELECT n, 'fleet-admin-' || n, 'md5$' || md5('harbour password ' || n), 'hk_' || md5('harbour key ' || n), 'Rotate after the dry dock.'
FROM generate_series(1, 3) AS n;
