"""Policies that are legal and unusual: they are applied and hold, or it is said why they can't be."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from services.kit.identity import Caller
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
