"""Tables outside of `public`: what is made and compared is the same for every session, whatever its search_path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from services.kit.wire.server import running
from services.sql_executor.policy import SqlPolicy
from services.sql_executor.provisioning import apply, compare
from services.sql_executor.provisioning.objects import fingerprint
from services.sql_executor.provisioning.trial import tried
from services.sql_executor.server import build, check_database
from services.sql_executor.settings import SqlExecutorSettings
from tests.integration.sql_executor.fleet import PASSWORD, READER, SECRET

Connection = psycopg.AsyncConnection[Any]

_KEYS = {
    "integer": ("int", "1", "2"),
    "domain of the schema": ("app.code", "'a'", "'b'"),
    "enum of the schema": ("app.size", "'small'", "'large'"),
    "domain of public": ("public.code", "'a'", "'b'"),
}
_SCHEMA = """
    CREATE SCHEMA app;
    CREATE DOMAIN app.code AS text;
    CREATE DOMAIN public.code AS text;
    CREATE TYPE app.size AS ENUM ('small', 'large');
    CREATE TABLE app.assignments (user_id bigint, device {type});
    CREATE TABLE app.devices (device {type}, name text);
    CREATE TABLE app.notes (author bigint, text text);
    INSERT INTO app.assignments VALUES (27, {own}), (31, {other});
    INSERT INTO app.devices VALUES ({own}, 'own'), ({other}, 'ZZ');
    INSERT INTO app.notes VALUES (27, 'own'), (31, 'ZZ');
"""
_POLICY: dict[str, Any] = {
    "version": 1,
    "database": "fleet",
    "schemas": ["app"],
    "owner": {"subject_type": "integer"},
    "tables": {
        "devices": {"owned_by": {"join": "assignments", "on": "device", "subject_column": "user_id"}},
        "notes": {"owned_by": {"column": "author"}},
    },
    "restricted": ["assignments"],
}


@pytest.fixture(params=list(_KEYS.values()), ids=list(_KEYS))
def app_database(request: pytest.FixtureRequest, database: str) -> str:
    """The DSN of a database with its tables in the schema `app`, for each type of a key."""
    kind, own, other = request.param
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_SCHEMA.format(type=kind, own=own, other=other).encode())
    return database


def _as_reader(dsn: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return psycopg.conninfo.make_conninfo("", **{**parts, "user": READER, "password": PASSWORD})


async def _connect(dsn: str) -> Connection:
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True)


async def _path(connection: Connection) -> Any:
    return await (await connection.execute("SHOW search_path")).fetchone()


@pytest.mark.parametrize("path", ["public", "app", "pg_catalog", "app, public"])
async def test_owner_and_reader_find_what_was_applied_under_any_search_path(app_database: str, path: str) -> None:
    policy = SqlPolicy.model_validate(_POLICY)
    async with await _connect(app_database) as owner:
        await owner.execute(f"SET search_path = {path}".encode())
        await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
        assert await compare(owner, policy, SECRET) == []
        assert await _path(owner) == (path,), "it is the session's own again"
        await owner.execute("SET search_path = elsewhere")
        assert await compare(owner, policy, SECRET) == []
    async with await _connect(_as_reader(app_database)) as reader:
        await check_database(reader, policy)


async def test_marks_are_of_what_the_readers_own_sessions_spell(app_database: str) -> None:
    """Releases that compared under each session's path left such marks: their databases are as promised still."""
    policy = SqlPolicy.model_validate(_POLICY)
    async with await _connect(app_database) as owner:
        await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
    spelt = """
        SELECT obj_description(oid, 'pg_class'), pg_get_viewdef(oid), '' FROM pg_class
            WHERE relnamespace = 'signalbox'::regnamespace AND relkind = 'v'
        UNION ALL
        SELECT obj_description(oid, 'pg_policy'), pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)
            FROM pg_policy
    """
    async with await _connect(_as_reader(app_database)) as reader:
        assert await _path(reader) == ("app",)
        found = await (await reader.execute(spelt)).fetchall()
    assert len(found) == 7
    for mark, *texts in found:
        assert mark.split()[1] == fingerprint(*texts)


async def test_the_executor_starts_and_callers_see_their_own_rows(app_database: str, tmp_path: Path) -> None:
    policy = SqlPolicy.model_validate(_POLICY)
    async with await _connect(app_database) as owner:
        await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(_POLICY))
    (tmp_path / "key.pem").write_text(generate_keypair().public_pem)
    settings = SqlExecutorSettings(
        database_dsn=_as_reader(app_database),
        sql_policy=tmp_path / "policy.yaml",
        caller_secret=SECRET,
        run_token_public_key_file=tmp_path / "key.pem",
        pool_min_size=1,
        pool_max_size=2,
        examples_dsn="",
        shutdown_grace_s=1,
    )
    async with running("sql_executor", settings, build) as service:
        assert service.address
    for query in ("SELECT * FROM devices", "SELECT * FROM notes"):
        shown, is_answered = await tried(policy, _as_reader(app_database), SECRET, Caller("27"), query)
        assert is_answered, shown
        assert shown.endswith("own")
        assert "ZZ" not in shown
