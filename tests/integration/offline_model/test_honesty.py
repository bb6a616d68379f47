"""The data skill on the real world: a right answer or a plain refusal, never a wrong answer."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from examples.harbour import load as harbour
from services.kit.text.policy_file import load_policy_file
from services.kit.tools.names import EXECUTE_DB_QUERY, GET_FEW_SHOT_EXAMPLES
from services.local.database import WORLD_VOCABULARY
from services.offline_model.conversation import CallMade, Conversation
from services.offline_model.skills.answer_data_question import answer_data_question
from services.offline_model.vocabulary import Vocabulary
from services.sql_executor.catalog import read_catalog
from services.sql_executor.example_file import read_example_file
from services.sql_executor.examples import ExampleStore
from services.sql_executor.policy import load_policy
from tests.fixtures.harbour_questions import ANSWERED, DECLINED, Asked
from tests.fixtures.postgres import PostgresCluster

FOLDER = Path(harbour.__file__).parent
FILE = read_example_file(FOLDER / "examples.yaml")
VOCABULARY = load_policy_file(WORLD_VOCABULARY, Vocabulary)
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class World:
    """The harbour world, its example store and what the prompt tells of its tables."""

    connection: psycopg.AsyncConnection[tuple[Any, ...]]
    store: ExampleStore
    tables: str

    async def rows(self, statement: str) -> Rows:
        return await (await self.connection.execute(statement)).fetchall()


async def prepare(dsn: str) -> None:
    assert await harbour.load(dsn)
    async with AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False) as pool:
        store = ExampleStore(pool)
        await store.setup()
        await store.load(FILE.examples, FILE.notes)


@pytest.fixture(scope="module")
def dsn(postgres_cluster: PostgresCluster) -> Iterator[str]:
    """One world for all: nothing here writes."""
    name = postgres_cluster.create_database()
    asyncio.run(prepare(postgres_cluster.dsn(name)))
    yield postgres_cluster.dsn(name)
    postgres_cluster.drop_database(name)


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with (
        AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False) as pool,
        await psycopg.AsyncConnection.connect(dsn) as connection,
    ):
        await connection.execute("SET timezone = 'UTC'")
        catalog = await read_catalog(connection, load_policy(FOLDER / "sql_policy.yaml"))
        yield World(connection, ExampleStore(pool), catalog.summary())


def pairs(examples: Sequence[Any]) -> str:
    return "\n\n".join(f"Question: {each.question}\nSQL: {each.sql}" for each in examples)


async def answer(world: World, asked: Asked, *, everything: bool) -> Rows | None:
    """What the skill's query gives, or None when it declines; with every example at hand, or as the runtime does it."""
    found = await world.store.nearest(asked.question)
    shown = FILE.examples if everything else found.examples[:2]
    notes = [*FILE.notes] if everything else [note.text for note in found.notes]
    given = {
        "question": asked.question,
        "tables": world.tables.splitlines(),
        "examples": [{"question": each.question, "sql": each.sql} for each in shown],
        "notes": notes,
        "earlier_turns": [{"question": question} for question in asked.earlier],
    }
    calls: tuple[CallMade, ...] = ()
    for _ in range(2):
        step = answer_data_question(
            Conversation(given, calls, (GET_FEW_SHOT_EXAMPLES, EXECUTE_DB_QUERY), must_call=False),
            VOCABULARY,
        )
        if not step.calls:
            assert step.text.startswith("I can't answer this without a larger model")
            return None
        [call] = step.calls
        if call.tool == EXECUTE_DB_QUERY:
            return await world.rows(call.arguments["query"])
        more = await world.store.nearest(call.arguments["question"])
        calls = (CallMade(call.tool, call.arguments, pairs(more.examples)),)
    raise AssertionError("the skill asks for examples again")


def comparable(value: object) -> object:
    return round(Decimal(value), 2) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


def holds(shown: Rows, expected: Rows) -> bool:
    """Whether what is shown has a row of its own for each expected row, with at least its values, and no row more."""
    left = [[comparable(value) for value in row] for row in shown]
    for row in expected:
        wanted = [comparable(value) for value in row]
        match = next((other for other in left if all(value in other for value in wanted)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


@pytest.mark.parametrize("asked", ANSWERED, ids=lambda asked: " / ".join((*asked.earlier, asked.question)))
async def test_what_it_can_answer_is_right(world: World, asked: Asked) -> None:
    expected = await world.rows(str(asked.sql))
    assert expected, "a question whose answer is empty shows nothing"
    shown = await answer(world, asked, everything=True)
    assert shown is not None, "it declines"
    assert holds(shown, expected), f"{shown[:5]} is not {expected[:5]}"


@pytest.mark.parametrize("asked", DECLINED, ids=lambda asked: " / ".join((*asked.earlier, asked.question)))
async def test_what_it_cannot_answer_it_declines(world: World, asked: Asked) -> None:
    assert await answer(world, asked, everything=True) is None
    assert await answer(world, asked, everything=False) is None


async def test_with_the_few_examples_that_are_retrieved_it_is_right_or_declines(world: World) -> None:
    answered = 0
    for asked in ANSWERED:
        shown = await answer(world, asked, everything=False)
        if shown is not None:
            answered += 1
            assert holds(shown, await world.rows(str(asked.sql))), asked.question
    assert answered > len(ANSWERED) * 2 / 3, "retrieval finds too little of what the examples can answer"


def test_the_comparison_sees_what_is_wrong() -> None:
    row = (1, Decimal("2.50"), "x", datetime.date(2026, 1, 1))
    assert holds([row], [(Decimal("2.5"), "x")])
    assert not holds([row], [(3, "x")])
    assert not holds([row, row], [(1,)])
    assert not holds([], [(1,)])
    assert not holds([(None,)], [(1,)])
