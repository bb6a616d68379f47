-- The harbour world: a fleet's telemetry. Loaded by load.py in one transaction.

CREATE TABLE public.users (
    user_id    integer PRIMARY KEY,
    name       text NOT NULL,
    email      text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL
);
COMMENT ON TABLE public.users IS 'People who watch devices.';

CREATE TABLE public.ships (
    ship_id    integer PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    kind       text NOT NULL CHECK (kind IN ('ferry', 'container', 'tanker', 'tug', 'trawler', 'research')),
    home_port  text NOT NULL,
    built_year integer NOT NULL
);
-- load.py recognises a loaded world by the comment it sets on this table.

CREATE TABLE public.devices (
    device_id    integer PRIMARY KEY,
    ship_id      integer NOT NULL REFERENCES public.ships,
    name         text NOT NULL UNIQUE,
    kind         text NOT NULL
        CHECK (kind IN ('engine_room', 'cold_store', 'cargo_hold', 'cabin', 'weather_deck', 'fuel_tank')),
    status       text NOT NULL CHECK (status IN ('active', 'maintenance', 'offline', 'retired')),
    installed_at timestamptz NOT NULL
);
COMMENT ON TABLE public.devices IS 'Sensors on board; a device belongs to one ship.';
COMMENT ON COLUMN public.devices.kind IS 'Where it measures: engine_room, cold_store, cargo_hold, cabin, weather_deck or fuel_tank.';
COMMENT ON COLUMN public.devices.status IS 'active, maintenance, offline (stopped reporting) or retired (never reports).';
CREATE INDEX devices_ship_id ON public.devices (ship_id);

CREATE TABLE public.user_device_assignment (
    user_id   integer NOT NULL REFERENCES public.users,
    device_id integer NOT NULL REFERENCES public.devices,
    PRIMARY KEY (user_id, device_id)
);
COMMENT ON TABLE public.user_device_assignment IS 'Which user may see which device.';
CREATE INDEX user_device_assignment_device_id ON public.user_device_assignment (device_id);

CREATE TABLE public.device_current_data (
    device_id   integer PRIMARY KEY REFERENCES public.devices,
    temperature numeric(5, 2) NOT NULL,
    humidity    numeric(5, 2),
    pressure    numeric(6, 2) NOT NULL,
    battery     numeric(5, 2) NOT NULL CHECK (battery BETWEEN 0 AND 100),
    status      text NOT NULL CHECK (status IN ('ok', 'warning', 'critical')),
    updated_at  timestamptz NOT NULL
);
COMMENT ON TABLE public.device_current_data IS 'The latest reading of each device; one row per device that ever reported.';
COMMENT ON COLUMN public.device_current_data.temperature IS 'degrees Celsius';
COMMENT ON COLUMN public.device_current_data.humidity IS 'relative humidity in percent; NULL when the humidity cell is faulty';
COMMENT ON COLUMN public.device_current_data.pressure IS 'hPa';
COMMENT ON COLUMN public.device_current_data.battery IS 'charge in percent';
COMMENT ON COLUMN public.device_current_data.status IS 'ok, warning (hot or low battery) or critical (above 55 degrees, or battery under 10 percent)';

CREATE TABLE public.device_readings (
    reading_id  bigint NOT NULL,
    device_id   integer NOT NULL,
    recorded_at timestamptz NOT NULL,
    temperature numeric(5, 2) NOT NULL,
    humidity    numeric(5, 2),
    pressure    numeric(6, 2) NOT NULL,
    battery     numeric(5, 2) NOT NULL CHECK (battery BETWEEN 0 AND 100)
);
-- its keys and indexes: indexes.sql
COMMENT ON TABLE public.device_readings IS 'Hourly readings of the past weeks; units as in device_current_data.';

CREATE TABLE public.admin (
    admin_id      integer PRIMARY KEY,
    login         text NOT NULL UNIQUE,
    password_hash text NOT NULL,
    api_key       text NOT NULL,
    note          text NOT NULL
);
COMMENT ON TABLE public.admin IS 'Operators of the fleet system. Sensitive: no caller may read it.';
