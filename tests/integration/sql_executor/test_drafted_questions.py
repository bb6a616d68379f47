"""What `sql-policy init` drafts for a database that nobody prepared: plain questions are answered, and none wrongly."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
import yaml

from services.kit.postgres import make_pool
from services.offline_model.conversation import Conversation
from services.offline_model.skills.answer_data_question import answer_data_question
from services.offline_model.vocabulary import Vocabulary
from services.sql_executor.catalog import read_catalog
from services.sql_executor.example_file import read_example_file
from services.sql_executor.examples import ExampleStore
from services.sql_executor.policy import load_policy
from services.sql_executor.pool import APPLICATION_NAME
from tests.fixtures.forked import program
from tests.fixtures.postgres import PostgresCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIXTURES = Path(__file__).parents[2] / "fixtures"
MUSIC = (FIXTURES / "music.sql").read_text()
_TABLES = "artist album genre media_type track playlist playlist_track customer invoice invoice_line".split()  # noqa: SIM905
# The same tables by other people's habits: a key is `id`, or names are in capitals and have to be quoted.
_IN_CAPITALS = """
DO $$ DECLARE c record; BEGIN
    FOR c IN SELECT attrelid::regclass AS t, attname AS n FROM pg_attribute JOIN pg_class r ON r.oid = attrelid
        WHERE attnum > 0 AND relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s RENAME %I TO %I', c.t, c.n, replace(initcap(c.n), '_', ''));
    END LOOP;
    FOR c IN SELECT relname AS n FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO %I', c.n, replace(initcap(c.n), '_', ''));
    END LOOP;
END $$
"""
HABITS = {
    "named keys": "",
    "id": ";".join(f"ALTER TABLE {t} RENAME {t}_id TO id" for t in _TABLES if t != "playlist_track"),
    "capitals": _IN_CAPITALS,
}
# A question, how many rows answer it, and a value in the first of them. They were written before anything was drafted.
PLAIN: list[tuple[str, int, Any]] = [
    ("How many tracks are there?", 1, 200),
    ("List all genres", 4, "Rock"),
    ("Which artist has the most albums?", 1, "Band C"),
    ("How many tracks are there per genre?", 4, 50),
    ("What is the average price of a track?", 1, Decimal("2.00")),
    ("What is the total of all invoices?", 1, Decimal("3623.40")),
    ("Top 5 longest tracks", 5, 300000),
    ("How many invoices were there in 2023?", 1, 33),
    ("How many Jazz tracks are there?", 1, 50),
    ("Which customers are from Norway?", 6, 3),
]
# Near to what can be answered, and something else; a database has no answer to some.
OTHER = [
    "How many customers have no invoices?",
    "How many tracks were sold in 2023?",
    "How many free tracks are there?",
    "Which genre has the longest tracks?",
    "How many tracks does customer 7 have?",
    "How many albums are there without tracks?",
    "What is the average total of invoices with vinyl tracks?",
    "Which artist has the second most albums?",
]

# Of other databases: whose rows are whose, and questions as above.
UNKNOWN: dict[str, tuple[str, list[tuple[str, int, Any]]]] = {
    "clinic": ("patient", [
        ("How many patients are there?", 1, 40),
        ("List all departments", 3, "Cardiology"),
        ("Which department has the most doctors?", 1, 4),
        ("How many appointments are there per doctor?", 12, 17),
        ("What is the average salary of a doctor?", 1, Decimal("56500.00")),
        ("What is the total quantity of all prescriptions?", 1, 300),
        ("Top 5 longest appointments", 5, 60),
        ("How many appointments were there in 2023?", 1, 91),
        ("How many cancelled appointments are there?", 1, 67),
        ("Which patients are from Oslo?", 13, 3),
        ("What is the most expensive medication?", 1, "Med 10"),
        ("How many male patients are there?", 1, 14),
        ("Which doctors were hired in 2012?", 3, 8),
        ("Which patients have no appointments?", 0, None),
    ]),
    "library": ("members", [
        ("How many books are there?", 1, 60),
        ("List all authors", 10, "Author 1"),
        ("Which author has the most books?", 1, 6),
        ("How many books are there per author?", 10, 6),
        ("What is the average number of pages?", 1, Decimal("191.50")),
        ("What is the total fine of all loans?", 1, Decimal("900.00")),
        ("Top 5 longest books", 5, 280),
        ("How many loans were there in 2023?", 1, 122),
        ("How many German books are there?", 1, 20),
        ("Which authors are from Norway?", 3, "Norway"),
        ("How many open loans are there?", 1, 100),
        ("What is the highest fine?", 1, Decimal("6.00")),
        ("Which books were published in 1990?", 2, 1990),
        ("How many members joined in 2020?", 1, 12),
    ]),
    "staff": ("employees", [
        ("How many employees are there?", 1, 40),
        ("Which department has the most employees?", 1, 16),
        ("What is the average salary?", 1, Decimal("6050.00")),
        ("How many employees were hired in 2018?", 1, 6),
        ("List all departments", 5, "Sales"),
        ("How many employees work in Sales?", 1, 8),
        ("How many pending leave requests are there?", 1, 30),
        ("Who has the highest salary?", 1, 40),
        ("How many employees are there per job?", 3, 14),
        ("Which employees have no dependents?", 15, 26),
        ("What is the average number of days of a leave request?", 1, Decimal("3.00")),
        ("Which job has the fewest employees?", 1, 13),
        # Those hired by then, and not in that year; born is born, and a title no name.
        ("How many employees were there in 2018?", 1, 29),
        ("How many employees were born in 1980?", 1, 2),
        ('How many dependents does the employee "L7" have?', 1, 1),
    ]),
    "store": ("customers", [
        ("How many products are there?", 1, 30),
        ("How many orders were made in 2025?", 1, 109),
        ("Average price of products", 1, Decimal("38.75")),
        ("How many cancelled orders are there?", 1, 45),
        ("What is the most expensive product?", 1, "Product 30"),
        ("How many products are there per category?", 4, 10),
        ("What is the average rating?", 1, Decimal("3.00")),
        ("What is the total amount of all orders?", 1, Decimal("18090.00")),
        ("How many orders were shipped in 2025?", 1, 55),
        ("How many reviews have a rating of 5?", 1, 18),
        # All products have a stock, and in some it is 0.
        ("Which products are out of stock?", 2, "Product 12"),
        ("Which products are in stock?", 28, "Product 1"),
        ("List products in stock", 28, "Product 1"),
        ("How many customers were there in 2024?", 1, 39),
    ]),
}  # fmt: skip


@dataclass(frozen=True)
class Shop:
    """The database, and what was drafted for it."""

    dsn: str
    drafts: Path

    async def ask(self, question: str, *, prepared: bool) -> Sequence[Any] | None:
        """The rows that a question is answered with; None where it is declined."""
        words = yaml.safe_load((self.drafts / "vocabulary.yaml").read_text()) if prepared else {}
        async with make_pool(self.dsn, APPLICATION_NAME, prepare=False, min_size=1, max_size=1) as pool:
            near = (await ExampleStore(pool).nearest(question)).examples if prepared else []
            async with pool.connection() as connection:
                tables = (await read_catalog(connection, load_policy(self.drafts / "policy.yaml"))).summary()
                examples = [{"question": each.question, "sql": each.sql} for each in near]
                data = {"question": question, "tables": tables.splitlines(), "examples": examples}
                conversation = Conversation(data, (), ("execute_db_query",), must_call=False)
                step = answer_data_question(conversation, Vocabulary.model_validate(words))
                if not step.calls:
                    return None
                rows: list[Any] = await (await connection.execute(step.calls[0].arguments["query"])).fetchall()
                return rows


def _draft(dsn: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*program("services.sql_executor.provisioning"), "--dsn-env", "OWNER_DSN", "init", *options]
    environment = {**os.environ, "OWNER_DSN": dsn}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


async def _prepared(dsn: str, drafts: Path, users: str, schema: str = "public") -> Shop:
    drafted = _draft(dsn, "--users", users, "--share-rest", "--schema", schema, "--out", str(drafts))
    assert drafted.returncode == 0, drafted.stderr
    examples = read_example_file(drafts / "examples.yaml")
    async with make_pool(dsn, APPLICATION_NAME, prepare=False, min_size=1, max_size=1) as pool:
        store = ExampleStore(pool)
        await store.setup()
        await store.load(examples.examples, examples.notes)
    return Shop(dsn, drafts)


async def _answered(shop: Shop, questions: Sequence[tuple[str, int, Any]], *, prepared: bool = True) -> int:
    """How many questions are answered; those that are have to be right."""
    answered = 0
    for question, count, value in questions:
        rows = await shop.ask(question, prepared=prepared)
        if rows is not None:
            assert len(rows) == count, (question, rows)
            assert not rows or value in rows[0], (question, rows)
            answered += 1
    return answered


@pytest_asyncio.fixture(params=HABITS, loop_scope="module", scope="module")
async def shop(
    request: pytest.FixtureRequest, postgres_cluster: PostgresCluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shop]:
    name = postgres_cluster.create_database()
    dsn = postgres_cluster.dsn(name)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(MUSIC.encode())
        owner.execute(HABITS[request.param].encode())
    users = "Customer" if request.param == "capitals" else "customer"
    yield await _prepared(dsn, tmp_path_factory.mktemp("drafts"), users)
    postgres_cluster.drop_database(name)


@pytest.mark.parametrize("name", UNKNOWN)
async def test_so_are_those_of_other_databases(name: str, postgres_cluster: PostgresCluster, tmp_path: Path) -> None:
    users, questions = UNKNOWN[name]
    dsn = postgres_cluster.dsn(postgres_cluster.create_database())
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute((FIXTURES / f"{name}.sql").read_bytes())
    shop = await _prepared(dsn, tmp_path, users, "store" if name == "store" else "public")
    assert await _answered(shop, questions[:10]) >= 8
    await _answered(shop, questions[10:])


async def test_plain_questions_are_answered_and_none_wrongly(shop: Shop) -> None:
    answered = {prepared: await _answered(shop, PLAIN, prepared=prepared) for prepared in (True, False)}
    assert answered[True] >= 8
    assert answered[True] > answered[False]


@pytest.mark.parametrize("question", OTHER)
async def test_what_is_near_to_them_is_declined(shop: Shop, question: str) -> None:
    assert await shop.ask(question, prepared=True) is None


async def test_each_example_is_a_statement_that_the_database_takes(shop: Shop) -> None:
    examples = read_example_file(shop.drafts / "examples.yaml").examples
    async with await psycopg.AsyncConnection.connect(shop.dsn, autocommit=True) as connection:
        for example in examples:
            await connection.execute(example.sql.encode())


async def test_values_are_of_the_schema_or_of_what_every_caller_may_read(shop: Shop) -> None:
    told = (shop.drafts / "examples.yaml").read_text() + (shop.drafts / "vocabulary.yaml").read_text()
    assert "student" in told  # of an enum
    assert "Hip Hop" in told  # of a look-up table
    for private in ("Norway", "@example.com", "First1", "Song 1", "Record 1"):
        assert private not in told


async def test_drafts_that_people_have_gone_through_are_not_written_over(shop: Shop, tmp_path: Path) -> None:
    again = _draft(shop.dsn, "--share-rest", "--out", str(shop.drafts))
    assert (again.returncode, "there is already" in again.stderr) == (2, True)
    policy = shop.drafts / "policy.yaml"
    of_policy = _draft(shop.dsn, "--policy", str(policy), "--out", str(tmp_path))
    assert of_policy.returncode == 0, of_policy.stderr
    assert "policy.yaml" not in of_policy.stdout
    assert "Hip Hop" in (tmp_path / "examples.yaml").read_text()
