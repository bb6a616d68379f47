"""Hostile SQL sent straight to the executor: never a row of another user, never an effect."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.errors import DatabaseDown
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import ReaderPool, reader_pool
from tests.integration.sql_executor.conftest import Executor
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet, leaks
from tests.integration.sql_executor.hostile import (
    Hostile,
    carriers,
    catalogs,
    disguises,
    functions,
    readers,
    reading,
    statements,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

THEMES: dict[str, Sequence[Hostile]] = {
    "others": reading.OTHERS,
    "restricted": reading.RESTRICTED,
    "whole_rows": reading.WHOLE_ROWS,
    "catalogs": catalogs.CATALOGS,
    "signature": catalogs.SIGNATURE,
    "writes": statements.WRITES,
    "not_selects": statements.NOT_SELECTS,
    "many": statements.MANY,
    "functions": functions.FUNCTIONS,
    "carriers": carriers.CARRIERS,
    "operators": disguises.OPERATORS,
    "calls_as_columns": disguises.CALLS_AS_COLUMNS,
    "system_columns": disguises.SYSTEM_COLUMNS,
    "texts": readers.TEXTS,
    "leaks": readers.LEAKS,
    "bombs": readers.BOMBS,
}
# Another session of the reader role, whose process id statements may name; what it sees after a batch shows whether
# a session of the same role was reached.
BACKEND = "{backend}"
_SESSION = """
    SELECT session_user, current_user, current_setting('search_path'), current_setting('TimeZone'),
        current_setting('role'), current_setting('row_security'), current_setting('statement_timeout'),
        current_setting('default_transaction_read_only'), coalesce(current_setting('signalbox.caller', true), ''),
        (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),
        (SELECT count(*) FROM pg_cursors),
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


@pytest.fixture(scope="module")
def statement_timeout_ms() -> int:
    """Some statements here end by nothing else; after them, others have to be answered within it."""
    return 1500


Session = psycopg.AsyncConnection[tuple[object, ...]]


class Witness:
    """A session of the reader role that does nothing, and one that listens to every channel statements name."""

    def __init__(
        self, idle: psycopg.AsyncConnection[tuple[object, ...]], ear: psycopg.AsyncConnection[tuple[object, ...]]
    ):
        self.idle = idle
        self.ear = ear

    def text(self, hostile: Hostile) -> str:
        """Returns a statement with this session's process id filled in."""
        return hostile.sql.replace(BACKEND, str(self.idle.info.backend_pid))

    async def assert_untouched(self) -> None:
        """Checks that the session lives and that nothing was notified."""
        assert await (await self.idle.execute("SELECT 1")).fetchone() == (1,)
        assert [note async for note in self.ear.notifies(timeout=0)] == []


@pytest_asyncio.fixture(loop_scope="module")
async def witness(fleet: Fleet) -> AsyncIterator[Witness]:
    async with (
        await psycopg.AsyncConnection.connect(fleet.reader_dsn, autocommit=True) as idle,
        await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as ear,
    ):
        await ear.execute("LISTEN hostile")
        yield Witness(idle, ear)


async def test_the_corpus_is_broad() -> None:
    every = list(itertools.chain.from_iterable(THEMES.values()))
    assert len({hostile.sql for hostile in every}) == len(every) >= 160


@pytest.mark.parametrize("theme", THEMES)
async def test_the_check_refuses_it(executor: Executor, fleet: Fleet, witness: Witness, theme: str) -> None:
    before = await fleet.fingerprint()
    wrong = []
    for hostile in THEMES[theme]:
        response = await executor.query(witness.text(hostile))
        reason = response.error.reason if response.HasField("error") else ""
        response.output.ClearField("sql_query")  # it repeats the statement's own words
        if leaks(str(response)) or not hostile.is_answered_by(reason):
            wrong.append(
                (hostile.sql[:150], hostile.reason, reason, response.error.message[:200], leaks(str(response)))
            )
    assert not wrong, "\n".join(map(str, wrong))
    await witness.assert_untouched()
    assert await fleet.fingerprint() == before


@pytest.mark.parametrize("theme", THEMES)
async def test_row_level_security_holds_without_the_check(fleet: Fleet, witness: Witness, theme: str) -> None:
    """The same statements, raw, straight to the execution layer: nothing but the database isolates rows here."""
    before = await fleet.fingerprint()
    leaked = []
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
        runner = QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)
        caller = SqlCaller(str(CALLER), is_admin=False)
        clean = await _session(pool, caller)
        for hostile in THEMES[theme]:
            text = witness.text(hostile)
            answer = await _answer(runner, text, caller)
            if leaks(answer):
                leaked.append((hostile.sql[:150], answer[:300]))
            assert await _answer(runner, "SELECT count(*), min(user_id) FROM users", caller) == "[('1', '27')]", (
                hostile.sql
            )
        assert await _session(pool, caller) == clean
        await runner.aclose()
    assert not leaked, "\n".join(map(str, leaked))
    await witness.assert_untouched()
    assert await fleet.fingerprint() == before


async def _session(pool: ReaderPool, caller: SqlCaller) -> list[Any]:
    connection, _ = await pool.take(caller)
    try:
        return await (await connection.execute(_SESSION)).fetchall()
    finally:
        await connection.rollback()
        await pool.give_back(connection, caller)


async def _answer(runner: QueryRunner, text: str, caller: SqlCaller) -> str:
    try:
        return str((await runner.run(text, caller)).rows)
    except ToolRefused as refusal:
        return refusal.message
    except (DatabaseDown, psycopg.DataError) as error:  # psycopg itself takes no NUL
        return str(error)
