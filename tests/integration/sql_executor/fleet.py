"""The harbour world as an operator's database would be: provisioned, and with marks on what user 27 must never see."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import psycopg

from examples.harbour.load import load
from services.sql_executor.policy import SqlPolicy, load_policy
from services.sql_executor.provisioning import apply

CALLER, NEIGHBOUR = 27, 31
READER, PASSWORD = "signalbox_reader", "reader-password"
SECRET = "a caller secret of the tests, forty characters"
POLICY_FILE = Path(__file__).resolve().parents[3] / "examples" / "harbour" / "sql_policy.yaml"

# What only rows of other people hold. A response of user 27 that has one of them in it is a leak.
MARKS = ("ZZ", "6666.66", "555000", "777001", "999777")

_MARK_OTHERS = """
    ALTER TABLE public.users ADD COLUMN pin text NOT NULL DEFAULT 'ZZ-PIN';
    ALTER TABLE public.device_current_data DROP CONSTRAINT device_current_data_status_check;
    UPDATE public.users SET name = 'ZZ ' || name, email = 'ZZ' || email WHERE user_id <> 27;
    INSERT INTO public.users VALUES (777001, 'ZZ Stranger', 'ZZ@harbour.example', now());
    CREATE TEMP TABLE mine AS SELECT device_id FROM public.user_device_assignment WHERE user_id = 27;
    UPDATE public.devices SET name = 'ZZ-' || name WHERE device_id NOT IN (SELECT device_id FROM mine);
    INSERT INTO public.devices VALUES (999777, 1, 'ZZ-stranger', 'cabin', 'active', now());
    INSERT INTO public.user_device_assignment VALUES (777001, 999777);
    UPDATE public.device_current_data SET pressure = 6666.66, status = 'ZZ'
        WHERE device_id NOT IN (SELECT device_id FROM mine);
    UPDATE public.device_readings SET pressure = 6666.66, reading_id = reading_id + 555000000
        WHERE device_id NOT IN (SELECT device_id FROM mine);
    UPDATE public.admin SET login = 'ZZ' || login, password_hash = 'ZZ' || password_hash, api_key = 'ZZ' || api_key,
        note = 'ZZ' || coalesce(note, '');
    DROP TABLE mine;
    ANALYZE;
"""
# What databases have that were there first: all of it open to everybody, and all of it a way around row-level security.
_WAYS_AROUND = """
    CREATE VIEW public.everything_view AS SELECT * FROM public.devices;
    CREATE VIEW public.invoker_view WITH (security_invoker) AS SELECT * FROM public.devices;
    CREATE MATERIALIZED VIEW public.devices_snapshot AS SELECT * FROM public.devices;
    GRANT SELECT ON public.everything_view, public.invoker_view, public.devices_snapshot, public.admin TO PUBLIC;
    CREATE FUNCTION public.everything() RETURNS SETOF public.devices LANGUAGE sql SECURITY DEFINER
        AS 'SELECT * FROM public.devices';
    CREATE FUNCTION public.whole_name(public.devices) RETURNS text LANGUAGE sql AS 'SELECT $1.name';
    CREATE SEQUENCE public.s;
    GRANT ALL ON SEQUENCE public.s TO PUBLIC;
    GRANT CREATE ON SCHEMA public TO PUBLIC;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC;
"""

_FINGERPRINT = """
    SELECT concat_ws(' ',
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM public.users t),
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM public.devices t),
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM public.ships t),
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM public.admin t),
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM public.user_device_assignment t),
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM public.device_current_data t),
        (SELECT count(*) || ',' || sum(hashtext(t::text)) FROM public.device_readings t),
        (SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM signalbox.caller_secret t),
        (SELECT last_value || ',' || is_called FROM public.s),
        (SELECT md5(string_agg(c::text, '' ORDER BY oid)) FROM (
            SELECT oid, relname, relnamespace, relowner, relkind, relacl, relrowsecurity, relforcerowsecurity
            FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)) c),
        (SELECT md5(string_agg(p::text, '' ORDER BY oid)) FROM pg_proc p),
        (SELECT md5(string_agg(p::text, '' ORDER BY oid)) FROM pg_policy p),
        (SELECT md5(string_agg(r::text, '' ORDER BY oid)) FROM pg_authid r),
        (SELECT md5(coalesce(string_agg(m::text, '' ORDER BY oid), '')) FROM pg_auth_members m),
        (SELECT md5(coalesce(string_agg(s::text, '' ORDER BY s::text), '')) FROM pg_db_role_setting s),
        (SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_replication_slots),
        (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
        (SELECT count(*) FROM pg_locks AS held JOIN pg_database AS here ON here.oid = held.database
            WHERE here.datname = current_database() AND locktype = 'advisory'),
        (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_description),
        (SELECT md5(string_agg(name || setting, '')) FROM pg_settings WHERE source = 'configuration file'))
"""


@dataclass(frozen=True)
class Fleet:
    """A provisioned database."""

    superuser_dsn: str
    reader_dsn: str
    policy: SqlPolicy

    async def fingerprint(self) -> str:
        """Returns a digest of everything in the database that a statement could change."""
        async with await psycopg.AsyncConnection.connect(self.superuser_dsn) as connection:
            row = await (await connection.execute(_FINGERPRINT)).fetchone()
            assert row is not None
            return hashlib.sha256(str(row[0]).encode()).hexdigest()


async def prepare(dsn: str) -> None:
    """Fills a database with the marked world."""
    await load(dsn)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(_MARK_OTHERS)
        await connection.execute(_WAYS_AROUND)


def fleet_policy(**limits: int) -> SqlPolicy:
    """Returns the harbour's policy with other limits."""
    policy = load_policy(POLICY_FILE)
    return policy.model_copy(update={"limits": policy.limits.model_copy(update=limits)})


async def provisioned(superuser_dsn: str, policy: SqlPolicy) -> Fleet:
    """Applies a policy to a database that holds the marked world."""
    async with await psycopg.AsyncConnection.connect(superuser_dsn, autocommit=True) as connection:
        await apply(connection, policy, secret=SECRET, reader_password=PASSWORD)
    parts = psycopg.conninfo.conninfo_to_dict(superuser_dsn)
    reader_dsn = psycopg.conninfo.make_conninfo("", **{**parts, "user": READER, "password": PASSWORD})
    return Fleet(superuser_dsn, reader_dsn, policy)


def leaks(text: str) -> list[str]:
    """Returns the marks of other people's rows that a text has."""
    return [mark for mark in MARKS if mark in text]
