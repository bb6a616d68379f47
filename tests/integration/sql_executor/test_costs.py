"""What functions and operators cost, held against the catalog of Postgres; the dearest that passes of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from services.kit.tools.executor import ToolRefused
from services.sql_executor import costs, grammar
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.costs import Cost, Kind, derived_cost
from services.sql_executor.execution import QueryRunner
from services.sql_executor.metrics import QUERIES_ABANDONED
from services.sql_executor.pool import reader_pool
from services.sql_executor.queries import load_queries
from services.sql_executor.sizes import BUILT
from services.sql_executor.statement import check_statement
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet, fleet_policy

pytestmark = pytest.mark.asyncio(loop_scope="module")

# As `costs.sql` has it of functions.
_OPERATORS = """
    SELECT oprname,
        max((l.typlen < 0)::int + (r.typlen < 0)::int),
        max((l.typcategory = 'A' OR l.typname IN ('json', 'jsonb'))::int
            + (r.typcategory = 'A' OR r.typname IN ('json', 'jsonb', 'anyarray'))::int)
    FROM pg_operator JOIN pg_type l ON l.oid = oprleft JOIN pg_type r ON r.oid = oprright
    WHERE oprname = ANY (%s) GROUP BY oprname
"""
# What has two collections, and reads one after the other: found by reading Postgres' source.
_ONE_AFTER_THE_OTHER = {
    "array_cat", "json_extract_path", "json_extract_path_text", "json_object", "jsonb_extract_path",
    "jsonb_extract_path_text", "jsonb_insert", "jsonb_path_query_first", "jsonb_set", "||", "=", "<>", "<", ">",
    "<=", ">=", "#>", "#>>", "#-",
}  # fmt: skip
_ITEMS = "string_to_array(repeat('a,', {n}), ',')"
# The dearest statements of each kind, by how long they are.
_DEAREST = [
    f"SELECT to_jsonb({_ITEMS}) - string_to_array(repeat('b,', {{n}}), ',') = '[]'",
    f"SELECT to_jsonb({_ITEMS}) ?| string_to_array(repeat('b,', {{n}}), ',')",
    f"SELECT {_ITEMS} && string_to_array(repeat('b,', {{n}}), ',')",
    "SELECT strpos(repeat('a', {n}), repeat('a', {n}) || 'b')",
    "SELECT translate(repeat('a', {n}), repeat('b', {n}), '') = ''",
    "SELECT length(regexp_replace(repeat('ab', {n}), '(a|b)+c', ''))",
    "SELECT {n} > 0 AND " + " + ".join(["repeat('9', 60000)::numeric * repeat('8', 60000)::numeric"] * 20) + " > 0",
]
USER = SqlCaller(str(CALLER), is_admin=False)


async def _found(dsn: str) -> dict[str, Cost]:
    """What the catalog tells of each function and operator in the list."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        rows = []
        for query, names in ((load_queries("costs.sql")["costs"], costs.FUNCTIONS), (_OPERATORS, costs.OPERATORS)):
            rows += await (await connection.execute(query, [list(names)])).fetchall()
        return {name: derived_cost(long, collections) for name, long, collections in rows}


async def test_the_catalog_says_nothing_else(fleet: Fleet) -> None:
    found = await _found(fleet.superuser_dsn)
    listed = {**costs.FUNCTIONS, **costs.OPERATORS}
    assert listed.keys() - found.keys() == {"!=", "@", "|/", "||/"}, (
        "it is no function, nor an operator of two operands"
    )
    too_cheap = {
        name
        for name, cost in listed.items()
        if name in found
        and (
            (cost.kind is Kind.CONSTANT and found[name].kind is not Kind.CONSTANT)
            or (cost.kind is not Kind.PRODUCT and found[name].kind is Kind.PRODUCT)
        )
    }
    assert too_cheap == _ONE_AFTER_THE_OTHER


async def test_what_a_rule_speaks_of_has_a_cost() -> None:
    named = {*BUILT, *grammar.NUMBERS, *grammar.AGGREGATES, *grammar.SETS, *grammar.OF_ROWS, *grammar.COUNTING}
    assert named <= costs.FUNCTIONS.keys()
    assert costs.OPERATORS.keys() >= grammar.COMPARISONS | grammar.LIKES | grammar.MATCHES | grammar.CONTAINMENTS


async def test_what_the_policy_allows_is_classed_by_its_types(fleet: Fleet) -> None:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as connection:
        await connection.execute(
            "CREATE FUNCTION public.meets(jsonb, text[]) RETURNS bool LANGUAGE sql AS 'SELECT true'"
        )
        functions = fleet.policy.functions.model_copy(update={"allow": ["meets", "hashtext", "hashint4"]})
        policy = fleet.policy.model_copy(update={"functions": functions})
        found = (await read_catalog(connection, policy)).costs
    assert {name: cost.kind for name, cost in found.items()} == {
        "meets": Kind.PRODUCT, "hashtext": Kind.LINEAR, "hashint4": Kind.CONSTANT,
    }  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def catalog(fleet: Fleet) -> Catalog:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as connection:
        return await read_catalog(connection, fleet_policy())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(fleet: Fleet) -> AsyncIterator[QueryRunner]:
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
        yield QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)


@pytest.mark.parametrize("template", _DEAREST)
async def test_the_dearest_that_passes_ends(template: str, catalog: Catalog, runner: QueryRunner) -> None:
    """It is answered, or heeds its timeout: none has to be waited for until it ends by itself."""
    least, most = 1, 10_000_000
    while most - least > 1 + least // 50:
        middle = (least + most) // 2
        try:
            check_statement(template.format(n=middle), catalog)
            least = middle
        except ToolRefused:
            most = middle
    assert least > 20
    overdue = QUERIES_ABANDONED.labels("itself")._value.get()
    try:
        outcome: int | str = len((await runner.run(template.format(n=least), USER)).rows)
    except ToolRefused as refusal:
        outcome = refusal.reason
    assert outcome in (1, "timeout")
    assert QUERIES_ABANDONED.labels("itself")._value.get() == overdue
