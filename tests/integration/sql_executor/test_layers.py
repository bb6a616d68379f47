"""Each layer holds without the others: the check where row-level security is off and everything is granted, and
row-level security where nothing checks; against the whole corpus, mutants of it, and generated statements, whose
answers are those of a database that has no other rows.

SQL_STATEMENTS says how many mutants and generated statements there are, and SQL_SEED which.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
import pytest
import pytest_asyncio

from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.statement import statement_for
from tests.fixtures.postgres import PostgresCluster
from tests.integration.sql_executor.analyst_queries import ANALYST_QUERIES
from tests.integration.sql_executor.fleet import CALLER, MARKS, SECRET, Fleet, fleet_policy, leaks, prepare, provisioned
from tests.integration.sql_executor.generated import generated
from tests.integration.sql_executor.hostile import (
    carriers,
    catalogs,
    disguises,
    functions,
    readers,
    reading,
    statements,
)
from tests.integration.sql_executor.mutants import mutants

# As many as somebody asks for take as long as they take.
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(0 if "SQL_STATEMENTS" in os.environ else 600),
]

GENERATED = int(os.environ.get("SQL_STATEMENTS", "300"))
MUTANTS = 20 * GENERATED
SEED = int(os.environ.get("SQL_SEED", "27"))
USER = SqlCaller(str(CALLER), is_admin=False)
_SESSIONS, _BATCH = 2, 200
_BATCH_TIMEOUT_MS, _TIMEOUT_MS, _LONG_MS = 1500, 150, 300_000
# Runs each statement as a cursor in a subtransaction of its own, that is always rolled back, and returns up to fifty of
# its rows as text; of an error, what the executor would say of it.
_PROBE = """
    CREATE FUNCTION public.probe(statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $probe$
    DECLARE
        statement text;
        rows refcursor;
        row record;
        shown text;
    BEGIN
        FOREACH statement IN ARRAY statements LOOP
            shown := '';
            BEGIN
                OPEN rows NO SCROLL FOR EXECUTE statement;
                FOR number IN 1..50 LOOP
                    FETCH rows INTO row;
                    EXIT WHEN NOT FOUND;
                    shown := shown || left(row::text, 2000);
                END LOOP;
                RAISE EXCEPTION USING ERRCODE = 'P0099';
            EXCEPTION
                WHEN SQLSTATE 'P0099' THEN NULL;
                WHEN OTHERS THEN
                    IF SQLSTATE LIKE '42%' AND SQLSTATE <> '42501' THEN shown := shown || SQLERRM; END IF;
            END;
            RETURN NEXT shown;
        END LOOP;
    END
    $probe$;
"""
# Answers each statement with its rows, in an order of their own, or with what kind of error it was.
_ANSWERS = """
    CREATE FUNCTION public.answers(statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $answers$
    DECLARE
        statement text;
        answer text;
    BEGIN
        FOREACH statement IN ARRAY statements LOOP
            BEGIN
                EXECUTE format($q$
                    SELECT count(*) || ': ' || left(coalesce(string_agg(t::text, ' ' ORDER BY t::text), ''), 10000)
                    FROM (%s) AS t$q$, statement) INTO answer;
            EXCEPTION WHEN OTHERS THEN
                answer := SQLSTATE;
            END;
            RETURN NEXT answer;
        END LOOP;
    END
    $answers$;
"""
# What is left when nobody else ever had a row.
_ALONE = """
    CREATE TEMP TABLE mine AS SELECT device_id FROM public.user_device_assignment WHERE user_id = 27;
    DELETE FROM public.user_device_assignment WHERE user_id <> 27;
    DELETE FROM public.device_readings WHERE device_id NOT IN (SELECT device_id FROM mine);
    DELETE FROM public.device_current_data WHERE device_id NOT IN (SELECT device_id FROM mine);
    DELETE FROM public.devices WHERE device_id NOT IN (SELECT device_id FROM mine);
    DELETE FROM public.users WHERE user_id <> 27;
    ALTER TABLE public.users DROP COLUMN pin;
"""
# What row-level security alone says of a NATURAL JOIN over a column that is not shown.
_NOT_ALLOWED = "42501"
# A few rows of each kind are enough here: what a statement takes is small.
_SMALL = "DELETE FROM public.device_readings WHERE reading_id % 100 <> 7; ANALYZE"
# The catalog, which row-level security is not there to hide, is marked here as well.
_OPEN = """
    ALTER TABLE public.users DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE public.devices DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE public.device_readings DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE public.device_current_data DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO signalbox_reader;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO signalbox_reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA signalbox TO signalbox_reader;
    GRANT SELECT ON pg_catalog.pg_authid TO signalbox_reader;
    COMMENT ON TABLE public.admin IS 'ZZ';
    CREATE TABLE public."ZZ_table" (n int);
"""


def _corpus() -> list[str]:
    """Every hostile and every ordinary statement, with nothing in them that waits or that looks like a leak."""
    themes = (carriers, reading, catalogs, statements, functions, disguises, readers)
    hostile = [each.sql for theme in themes for value in vars(theme).values() if isinstance(value, list)
               for each in value if value is not readers.BOMBS]  # fmt: skip
    texts = [*hostile, *ANALYST_QUERIES]
    for waiting, quick in (
        ("30", "0"),
        ("1 minute", "0 s"),
        ("{backend}", "0"),
        ("sleep(1)", "sleep(0)"),
        *((mark, "7") for mark in MARKS),
    ):
        texts = [text.replace(waiting, quick) for text in texts]
    return [text for text in texts if "\x00" not in text]


@dataclass(frozen=True)
class Shown:
    """What statements showed: how many showed anything, and those that showed other people's data."""

    count: int
    leaks: list[tuple[str, str]]


@dataclass(frozen=True)
class World:
    """A database that the reader role reads, with one layer in front of its rows or none."""

    fleet: Fleet
    catalog: Catalog

    async def shown(self, statements_: Iterable[str]) -> Shown:
        """Runs statements as the reader, for the caller."""
        batches = _batches(statements_)
        parts = await asyncio.gather(*(self._shown(batches) for _ in range(_SESSIONS)))
        return Shown(sum(part.count for part in parts), [leak for part in parts for leak in part.leaks])

    async def _shown(self, batches: Iterator[list[str]]) -> Shown:
        count = 0
        found = []
        async with await psycopg.AsyncConnection.connect(self.fleet.reader_dsn, autocommit=True) as connection:
            for batch in batches:
                answers = await self._answers(connection, batch)
                count += sum(answer.startswith("(") for answer in answers)
                found += [(text, answer) for text, answer in zip(batch, answers, strict=True) if leaks(answer)]
        return Shown(count, found)

    async def answers(self, statements_: Sequence[str]) -> list[str]:
        """Runs statements as the reader, for the caller, and returns what each gives."""
        async with await psycopg.AsyncConnection.connect(self.fleet.reader_dsn, autocommit=True) as connection:
            return [
                answer
                for batch in _batches(statements_)
                for answer in await self._asked(connection, "SELECT * FROM public.answers(%s)", batch, _LONG_MS)
            ]

    async def _answers(self, connection: psycopg.AsyncConnection[Any], batch: list[str]) -> list[str]:
        """Returns what statements show; where one takes too long, each is run alone, and shows nothing when it does."""
        try:
            return await self._probe(connection, batch, _BATCH_TIMEOUT_MS)
        except psycopg.errors.QueryCanceled:
            return [await self._alone(connection, text) for text in batch]

    async def _alone(self, connection: psycopg.AsyncConnection[Any], text: str) -> str:
        try:
            return (await self._probe(connection, [text], _TIMEOUT_MS))[0]
        except psycopg.errors.QueryCanceled:
            return ""

    async def _probe(self, connection: psycopg.AsyncConnection[Any], batch: list[str], timeout_ms: int) -> list[str]:
        return await self._asked(connection, "SELECT * FROM public.probe(%s)", batch, timeout_ms)

    async def _asked(
        self, connection: psycopg.AsyncConnection[Any], question: LiteralString, batch: list[str], timeout_ms: int
    ) -> list[str]:
        signer = CallerSigner(SECRET)
        async with connection.transaction(force_rollback=True):
            await connection.execute("SET TRANSACTION READ ONLY")
            start = "SELECT (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint"
            row = await (await connection.execute(start)).fetchone()
            assert row is not None
            info = connection.info
            signed = signer.sign(USER, database=info.dbname, backend_pid=info.backend_pid, started_us=row[0])
            await connection.execute(
                "SELECT set_config('signalbox.caller', %s, true), set_config('statement_timeout', %s, true)",
                (signed, str(timeout_ms)),
            )
            cursor = await connection.execute(question, (batch,))
            return [answer for (answer,) in await cursor.fetchall()]


def _batches(statements_: Iterable[str]) -> Iterator[list[str]]:
    left = iter(statements_)
    while batch := list(itertools.islice(left, _BATCH)):
        yield batch


async def _prepare(dsn: str) -> None:
    await prepare(dsn)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as owner:
        await owner.execute(_SMALL)
        await owner.execute(_PROBE)
        await owner.execute(_ANSWERS)


@asynccontextmanager
async def _world(cluster: PostgresCluster, *, is_open: bool) -> AsyncIterator[World]:
    name = cluster.create_database(await cluster.template("small_fleet", _prepare))
    dsn = cluster.dsn(name)
    fleet = await provisioned(dsn, fleet_policy())
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as owner:
        catalog = await read_catalog(owner, fleet.policy)
        if is_open:
            await owner.execute(_OPEN)
    yield World(fleet, catalog)
    cluster.drop_database(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def without_row_level_security(postgres_cluster: PostgresCluster) -> AsyncIterator[World]:
    """Everything is open to the reader: only the check and the filter that it adds stand before other people's rows."""
    async with _world(postgres_cluster, is_open=True) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def without_check(postgres_cluster: PostgresCluster) -> AsyncIterator[World]:
    """Statements go to the database as they are: only row-level security and the reader's rights stand there."""
    async with _world(postgres_cluster, is_open=False) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers_alone(postgres_cluster: PostgresCluster) -> AsyncIterator[Callable[[Sequence[str]], list[str]]]:
    """What statements give in a database that holds nobody else's rows, where nothing checks and nothing filters."""
    name = postgres_cluster.create_database(await postgres_cluster.template("small_fleet", _prepare))
    with psycopg.connect(postgres_cluster.dsn(name), autocommit=True) as owner:
        owner.execute(_ALONE)

        def answers(texts: Sequence[str]) -> list[str]:
            cursor = owner.execute("SELECT * FROM public.answers(%s)", (list(texts),))
            return [answer for (answer,) in cursor.fetchall()]

        yield answers
    postgres_cluster.drop_database(name)


def _passed(texts: Iterable[str], catalog: Catalog) -> dict[str, str]:
    """Returns the texts that pass the check, with what runs for them, on a thread like the executor's own."""
    passed: dict[str, str] = {}

    def check_all() -> None:
        for text in texts:
            with contextlib.suppress(ToolRefused):
                passed[text] = statement_for(text, USER, catalog).sql

    before = threading.stack_size(64 << 20)
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(check_all).result()
    finally:
        threading.stack_size(before)
    return passed


async def test_without_the_check_the_open_world_shows_other_rows(without_row_level_security: World) -> None:
    """The detector is not blind: these statements do leak where nothing stands before the rows."""
    open_ones = ["SELECT * FROM users", "SELECT login FROM admin", "SELECT obj_description('admin'::regclass)",
                 "SELECT relname FROM pg_class WHERE relname LIKE 'Z%'", "SELECT everything()"]  # fmt: skip
    assert len((await without_row_level_security.shown(open_ones)).leaks) == len(open_ones)


async def test_the_check_alone_holds_against_the_corpus(without_row_level_security: World) -> None:
    passed = _passed(_corpus(), without_row_level_security.catalog)
    assert len(passed) > len(ANALYST_QUERIES)
    assert (await without_row_level_security.shown(sorted({*passed.values()}))).leaks == []


async def test_row_level_security_alone_holds_against_the_corpus(without_check: World) -> None:
    assert (await without_check.shown(_corpus())).leaks == []


async def test_the_check_alone_holds_against_mutants(without_row_level_security: World) -> None:
    before = await without_row_level_security.fleet.fingerprint()
    texts = mutants(_corpus(), MUTANTS, seed=SEED)
    found = await asyncio.to_thread(_passed, texts, without_row_level_security.catalog)
    assert MUTANTS // 50 < len(found) < MUTANTS // 2, f"{len(found)} of {MUTANTS} mutants passed: too many, or too few"
    passed = {*found.values()}
    shown = await without_row_level_security.shown(sorted(passed))
    assert shown.leaks == []
    assert shown.count > len(passed) // 4, f"only {shown.count} of {len(passed)} statements showed a row"
    assert await without_row_level_security.fleet.fingerprint() == before


async def test_row_level_security_alone_holds_against_mutants(without_check: World) -> None:
    before = await without_check.fleet.fingerprint()
    shown = await without_check.shown(mutants(_corpus(), MUTANTS, seed=SEED))
    assert shown.leaks == []
    assert shown.count > MUTANTS // 50, f"only {shown.count} of {MUTANTS} mutants showed a row"
    assert await without_check.fleet.fingerprint() == before


async def test_generated_statements_answer_as_if_nobody_else_had_rows(
    without_row_level_security: World, without_check: World, answers_alone: Callable[[Sequence[str]], list[str]]
) -> None:
    """By the check alone, and by row-level security alone."""
    texts = generated(GENERATED, seed=SEED)
    passed = await asyncio.to_thread(_passed, texts, without_row_level_security.catalog)
    assert len(passed) > GENERATED // 2, f"only {len(passed)} of {GENERATED} statements passed: they are too wild"
    expected = await asyncio.to_thread(answers_alone, [*passed])
    checked = await without_row_level_security.answers([*passed.values()])
    isolated = await without_check.answers([*passed])
    told = sum(not answer.startswith("0:") and ":" in answer for answer in expected)
    assert told > len(passed) // 3, f"only {told} of {len(passed)} statements gave a row"
    wrong = [
        (text, passed[text], *answers)
        for text, *answers in zip(passed, expected, checked, isolated, strict=True)
        if len({*answers} - {_NOT_ALLOWED}) > 1
    ]
    assert not wrong, f"{len(wrong)} of {len(passed)}, seed {SEED}: " + "\n".join(map(str, wrong[:3]))
