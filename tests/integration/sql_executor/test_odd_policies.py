"""Policies that are legal and unusual: they are applied and hold, or it is said why they can't be."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from services.kit.identity.caller import Caller
from services.sql_executor.policy import SqlPolicy
from services.sql_executor.provisioning import NotApplied, apply, compare
from services.sql_executor.provisioning.trial import tried
from tests.integration.sql_executor.fleet import PASSWORD, READER, SECRET

_SCHEMA = """
    CREATE SCHEMA crm;
    CREATE TABLE shares (user_id bigint, device_id int);
    CREATE TABLE crm.shares (user_id bigint, device_id int);
    CREATE TABLE crm_shares (user_id bigint, device_id int);
    CREATE TABLE caller_secret (user_id bigint, device_id int);
    CREATE TABLE devices (device_id int, name text);
    CREATE TABLE samples (device int, name text);
    INSERT INTO shares VALUES (27, 1), (31, 2);
    INSERT INTO crm_shares VALUES (27, 1), (31, 2);
    INSERT INTO devices VALUES (1, 'own'), (2, 'ZZ');
    INSERT INTO samples VALUES (1, 'own'), (2, 'ZZ');
"""


def _policy(tables: dict[str, Any], **changes: Any) -> SqlPolicy:
    content = {"version": 1, "database": "odd", "owner": {"subject_type": "integer"}, "tables": tables, **changes}
    return SqlPolicy.model_validate(content)


def _joined(table: str) -> dict[str, Any]:
    return {"owned_by": {"join": table, "on": "device_id", "subject_column": "user_id"}}


def _led(table: str, references: str = "device_id") -> dict[str, Any]:
    hop = {"table": table, "column": "device", "references": references}
    return {"owned_by": {"path": [hop], "subject_column": "user_id"}}


async def _holds(dsn: str, policy: SqlPolicy) -> None:
    """Applies a policy; callers then see their own rows of every table, and only those."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as owner:
        await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
        assert await compare(owner, policy, SECRET) == []
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    reader = psycopg.conninfo.make_conninfo("", **{**parts, "user": READER, "password": PASSWORD})
    for table in policy.tables:
        shown, is_answered = await tried(policy, reader, SECRET, Caller("27"), f'SELECT * FROM "{table}"')  # noqa: S608
        assert is_answered, shown
        assert "own" in shown.splitlines()[-1]
        assert "ZZ" not in shown


async def _refused(dsn: str, policy: SqlPolicy) -> list[str]:
    """Returns what `plan` and `apply` both leave to a person."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as owner:
        by_hand = [each.problem for each in await compare(owner, policy, SECRET) if not each.statements]
        with pytest.raises(NotApplied) as refused:
            await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
        assert set(by_hand) <= {each.problem for each in refused.value.left}
        assert not any(each.statements for each in refused.value.left)
    return by_hand


@pytest.mark.parametrize(("one", "other"), [("shares", "shares"), ("shares", "public.shares")])
async def test_tables_may_find_owners_by_the_same_keys(database: str, one: str, other: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_SCHEMA)
    await _holds(database, _policy({"devices": _joined(one), "samples": _led(other)}))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"devices": _joined("crm.shares"), "samples": _led("crm_shares")},
         ["the view signalbox.crm_shares would be both", "the function signalbox.caller_device_id_of_crm_shares "]),
        ({"devices": _joined("caller_secret")}, ["the view signalbox.caller_secret would be both for the caller se"]),
    ],
)  # fmt: skip
async def test_one_name_for_two_things_is_refused(database: str, tables: dict[str, Any], words: list[str]) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_SCHEMA)
    by_hand = await _refused(database, _policy(tables, schemas=["public", "crm"]))
    assert len(by_hand) == len(words)
    assert all(expected in problem for expected, problem in zip(words, by_hand, strict=True))


@pytest.mark.parametrize("subject_type", ["text", "uuid"])
@pytest.mark.parametrize("rule", [{"owned_by": {"column": "user_id"}}, _joined("shares")], ids=["column", "join"])
async def test_an_owner_that_is_no_subject_is_said_to_be_none(
    database: str, subject_type: str, rule: dict[str, Any]
) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_SCHEMA + "ALTER TABLE devices ADD COLUMN user_id bigint")
    (problem,) = await _refused(database, _policy({"devices": rule}, owner={"subject_type": subject_type}))
    assert f".user_id is bigint, and a caller's subject {subject_type}: Postgres can't compare the two" in problem


@pytest.mark.parametrize("before", ["", "ALTER TABLE samples ALTER device TYPE uuid USING NULL"], ids=["hop", "first"])
async def test_keys_that_cannot_be_compared_are_named(database: str, before: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_SCHEMA + "ALTER TABLE shares ALTER device_id TYPE text;" + before)
    path = [
        {"table": "devices", "column": "device", "references": "device_id"},
        {"table": "shares", "column": "device_id"},
    ]
    rule = {"owned_by": {"path": path, "subject_column": "user_id"}}
    problems = await _refused(database, _policy({"samples": rule}))
    assert "public.devices.device_id is integer, and public.shares.device_id text: Postgres" in problems[0]
    assert [problem[:45] for problem in problems[1:]] == ["public.samples.device is uuid, and public.dev"] * bool(
        before
    )


@pytest.mark.parametrize("kind", ["smallint", "numeric", "small"])
async def test_types_that_postgres_compares_need_not_be_the_same(database: str, kind: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute("CREATE DOMAIN small AS int NOT NULL CHECK (VALUE > 0);" + _SCHEMA)
        owner.execute(f"ALTER TABLE shares ALTER device_id TYPE {kind}, ALTER user_id TYPE {kind}".encode())
    await _holds(database, _policy({"devices": _joined("shares")}))


async def test_what_postgres_refuses_is_reported(database: str) -> None:
    """Whatever it is: here somebody's view needs the one that would be made again."""
    policy = _policy({"devices": _joined("shares")})
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_SCHEMA)
        await _holds(database, policy)
        owner.execute("CREATE VIEW more AS SELECT * FROM signalbox.shares")
        owner.execute("ALTER VIEW signalbox.shares SET (security_barrier = false)")
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        with pytest.raises(NotApplied, match=r"Postgres refused a statement: cannot drop view signalbox\.shares"):
            await apply(connection, policy, secret=SECRET)


_NAMES = ["o'brien", "50%_s", "a$$b", "$q1$ $$", "{x}", "{}", "back\\slash", "-- no comment", "Straße :1 %s", "ä" * 30]


@pytest.mark.parametrize("name", _NAMES)
async def test_names_of_any_characters_are_quoted(database: str, name: str) -> None:
    """As a table, as its columns, as a key and as the table that assigns it."""
    owned, assigning, key, owner_column = f"{name}_t", f"{name}_a", name, name + "'"
    names = {"owned": owned, "assigning": assigning, "key": key, "owner": owner_column}
    with psycopg.connect(database, autocommit=True) as owner:
        for statement in (
            "CREATE TABLE {owned} ({key} int, {owner} bigint, name text)",
            "CREATE TABLE {assigning} ({key} int, {owner} bigint)",
            "INSERT INTO {owned} VALUES (1, 27, 'own'), (2, 31, 'ZZ')",
            "INSERT INTO {assigning} VALUES (1, 27), (2, 31)",
        ):
            quoted = {place: sql.Identifier(each) for place, each in names.items()}
            owner.execute(sql.SQL(statement).format(**quoted))
    for rule in ({"column": owner_column}, {"join": assigning, "on": key, "subject_column": owner_column}):
        await _holds(database, _policy({owned: {"owned_by": rule}}))
        with psycopg.connect(database, autocommit=True) as owner:
            owner.execute("DROP SCHEMA signalbox CASCADE")
