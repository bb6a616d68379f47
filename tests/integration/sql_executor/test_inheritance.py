"""Tables that are read through others: what inherits from a shown table may show no more than it does itself."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from services.kit.identity.caller import Caller
from services.sql_executor.policy import SqlPolicy
from services.sql_executor.provisioning import NotApplied, apply, compare
from services.sql_executor.provisioning.trial import tried
from tests.integration.sql_executor.fleet import PASSWORD, READER, SECRET

_DOCUMENTS = """
    CREATE TABLE documents (id int, owner bigint, body text);
    CREATE TABLE private_documents () INHERITS (documents);
    CREATE TABLE sealed_documents (seal text) INHERITS (private_documents);
    INSERT INTO documents VALUES (1, 27, 'own');
    INSERT INTO private_documents VALUES (2, 27, 'own'), (3, 31, 'ZZ');
    INSERT INTO sealed_documents VALUES (4, 31, 'ZZ', 'ZZ');
"""
_EVENTS = """
    CREATE TABLE events (region text, owner bigint, body text) PARTITION BY LIST (region);
    CREATE TABLE events_eu PARTITION OF events FOR VALUES IN ('eu');
    CREATE TABLE events_us PARTITION OF events FOR VALUES IN ('us') PARTITION BY LIST (owner);
    CREATE TABLE events_us_31 PARTITION OF events_us FOR VALUES IN (31);
    INSERT INTO events VALUES ('eu', 27, 'own'), ('us', 31, 'ZZ');
"""
_CHUNKS = """
    CREATE SCHEMA _timescaledb_internal;
    CREATE TABLE readings (at timestamptz, owner bigint, body text);
    CREATE TABLE _timescaledb_internal._hyper_1_1_chunk () INHERITS (readings);
    INSERT INTO _timescaledb_internal._hyper_1_1_chunk VALUES (now(), 27, 'own'), (now(), 31, 'ZZ');
"""
_SHARED = {"shared": True}
_OWNED = {"owned_by": {"column": "owner"}}
_OWN_DOCUMENTS = {"documents": _OWNED, "private_documents": _OWNED, "sealed_documents": _OWNED}

LEAKS: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        _DOCUMENTS,
        {"tables": {**_OWN_DOCUMENTS, "documents": _SHARED}},
        ["private_documents has other owners than public.documents", "sealed_documents has other owners than"],
    ),
    (
        _DOCUMENTS,
        {"tables": {**_OWN_DOCUMENTS, "private_documents": {"owned_by": {"column": "id"}}}},
        [
            "private_documents has other owners than public.documents",
            "sealed_documents has other owners than public.private_documents",
        ],
    ),
    (
        _DOCUMENTS,
        {"tables": {"documents": _OWNED}, "restricted": ["sealed_documents"]},
        ["public.sealed_documents is restricted, and is read through public.documents"],
    ),
    (
        _DOCUMENTS,
        {"tables": {"documents": _SHARED, "private_documents": _SHARED}},
        [
            "public.sealed_documents is not in the policy file, and every caller reads it through public.documents",
            "public.sealed_documents is not in the policy file, and every caller reads it through public.private_docu",
        ],
    ),
    (
        _DOCUMENTS + "DROP TABLE sealed_documents;",
        {"tables": {"documents": _SHARED, "private_documents": {**_SHARED, "columns": ["id", "owner"]}}},
        ["public.private_documents does not show body, which is read through public.documents"],
    ),
    (
        _EVENTS,
        {"tables": {"events": _SHARED}, "restricted": ["events_us_31"]},
        ["public.events_us_31 is restricted, and is read through public.events"],
    ),
    (
        _EVENTS,
        {"tables": {"events": _SHARED, "events_eu": _OWNED}},
        ["public.events_eu has other owners than public.events"],
    ),
    (
        _EVENTS,
        {"tables": {"events_us": _SHARED, "events_us_31": {**_SHARED, "columns": ["region"]}}},
        ["public.events_us_31 does not show owner, body, which is read through public.events_us"],
    ),
]
HARMLESS: list[tuple[str, dict[str, Any]]] = [
    (_DOCUMENTS, {"tables": _OWN_DOCUMENTS}),
    (_DOCUMENTS, {"tables": {"documents": _OWNED}}),
    (_DOCUMENTS, {"tables": {"private_documents": _OWNED}, "restricted": ["documents"]}),
    (_DOCUMENTS, {"tables": {**_OWN_DOCUMENTS, "documents": {**_OWNED, "columns": ["id", "owner"]}}}),
    (_DOCUMENTS, {"tables": {**_OWN_DOCUMENTS, "sealed_documents": _SHARED}}),
    (_CHUNKS, {"tables": {"readings": _SHARED}}),
    (_CHUNKS, {"tables": {"readings": _OWNED}}),
    (_EVENTS, {"tables": {"events": _OWNED}}),
    (_EVENTS, {"tables": {"events": _OWNED, "events_eu": _OWNED}}),
]


def _policy(content: dict[str, Any]) -> SqlPolicy:
    return SqlPolicy.model_validate(
        {"version": 1, "database": "archive", "owner": {"subject_type": "integer"}, **content}
    )


@pytest.mark.parametrize(("schema", "content", "problems"), LEAKS)
async def test_what_is_read_through_another_table_is_for_a_person_to_mend(
    database: str, schema: str, content: dict[str, Any], problems: list[str]
) -> None:
    policy = _policy(content)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as owner:
        await owner.execute(schema.encode())
        by_hand = [each.problem for each in await compare(owner, policy, SECRET) if not each.statements]
        assert len(by_hand) == len(problems)
        for problem, words in zip(by_hand, problems, strict=True):
            assert words in problem
        with pytest.raises(NotApplied) as refused:
            await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
        assert [each.problem for each in refused.value.left] == by_hand


@pytest.mark.parametrize(("schema", "content"), HARMLESS)
async def test_what_shows_no_more_through_another_table_is_applied(
    database: str, schema: str, content: dict[str, Any]
) -> None:
    policy = _policy(content)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as owner:
        await owner.execute(schema.encode())
        await apply(owner, policy, secret=SECRET, reader_password=PASSWORD)
        assert await compare(owner, policy, SECRET) == []
    parts = psycopg.conninfo.conninfo_to_dict(database)
    reader = psycopg.conninfo.make_conninfo("", **{**parts, "user": READER, "password": PASSWORD})
    for table in (table for table, rule in policy.tables.items() if not rule.shared):
        shown, is_answered = await tried(policy, reader, SECRET, Caller("27"), f"SELECT * FROM {table}")  # noqa: S608
        assert is_answered, shown
        assert "own" in shown
        assert "ZZ" not in shown
