"""Generated SELECTs: whatever their shape, a caller's rows are a subset of what they own."""
# ruff: noqa: S608 - queries are what is made here

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.statement import statement_for
from tests.integration.sql_executor.fleet import CALLER, SECRET, Fleet

# Every query here returns keys of devices, or NULL where an outer join finds none.
_TABLES = ("devices", "device_current_data", "device_readings")
_CONDITIONS = (
    "TRUE", "{a}.device_id > 30", "{a}.device_id = 61", "{a}.device_id % 7 = 3", "NOT ({a}.device_id = 40)",
    "{a}.device_id IN (33, 61, 999777)", "{a}.device_id IS NOT NULL", "{a}.device_id BETWEEN 35 AND 70",
    "{a}.device_id IN ({query})", "EXISTS ({query})", "{a}.device_id > ALL ({query})", "{a}.device_id = ANY ({query})",
    "({a}.device_id = 61 OR TRUE)",
)  # fmt: skip
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "NATURAL JOIN", "USING", "COMMA", "LATERAL")


@st.composite
def selects(draw: st.DrawFn, depth: int = 3) -> str:
    """A query with one column, `device_id`."""
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        operator = draw(st.sampled_from(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]))
        return f"({draw(selects(depth - 1))}) {operator} ({draw(selects(depth - 1))})"
    source, key = draw(sources(depth))
    condition = draw(st.sampled_from(_CONDITIONS))
    nested = draw(selects(0)) if "{query}" in condition else ""
    where = condition.replace("{query}", nested).replace("{a}.device_id", key)
    ending = draw(st.sampled_from(["", " ORDER BY 1", " ORDER BY 1 LIMIT 30", " LIMIT 30 OFFSET 2"]))
    distinct = draw(st.sampled_from(["", "DISTINCT "]))
    return f"SELECT {distinct}{key} AS device_id FROM {source} WHERE {where}{ending}"


@st.composite
def sources(draw: st.DrawFn, depth: int) -> tuple[str, str]:
    """What stands after FROM, and the column with a key in it."""
    shape = draw(st.sampled_from(["table", "join", "subquery", "cte"] if depth > 0 else ["table"]))
    if shape == "subquery":
        return f"({draw(selects(depth - 1))}) AS s", "s.device_id"
    if shape == "cte":
        return f"(WITH c AS ({draw(selects(depth - 1))}) SELECT * FROM c) AS w", "w.device_id"
    table = draw(st.sampled_from(_TABLES))
    name = draw(st.sampled_from([table, f"public.{table}", f'"{table}"', table.upper()]))
    if shape == "table":
        return f"{name} AS a", "a.device_id"
    other = draw(st.sampled_from(["devices", "device_current_data"]))
    small = draw(st.sampled_from(["devices", "device_current_data"]))
    side = draw(st.sampled_from(["a.device_id", "b.device_id"]))
    return _joined(draw(st.sampled_from(_JOINS)), small, other), side


def _joined(join: str, left: str, right: str) -> str:
    if join == "USING":
        return f"{left} AS a LEFT JOIN {right} AS b USING (device_id)"
    if join == "NATURAL JOIN":
        return f"(SELECT device_id FROM {left}) AS a NATURAL LEFT JOIN {right} AS b"
    if join == "COMMA":
        return f"{left} AS a, {right} AS b"
    if join == "LATERAL":
        inner = f"SELECT * FROM {right} AS x WHERE x.device_id >= a.device_id"
        return f"{left} AS a LEFT JOIN LATERAL ({inner}) AS b ON TRUE"
    if join == "CROSS JOIN":
        return f"{left} AS a CROSS JOIN {right} AS b"
    return f"{left} AS a {join} {right} AS b ON a.device_id = b.device_id AND b.device_id > 2"


@pytest.fixture(scope="module")
def statement_timeout_ms() -> int:
    """Some of what is generated would take for ever, and is of no use."""
    return 2000


class World:
    """A runner for a user and what the user owns."""

    def __init__(self, runner: QueryRunner, catalog: Catalog, owned: set[str]) -> None:
        self.runner = runner
        self.catalog = catalog
        self.owned = owned

    async def keys(self, sql: str, *, checked: bool) -> tuple[list[str], bool]:
        """Runs a query for the user; returns the keys and whether they are all: none are there if it takes too long."""
        caller = SqlCaller(str(CALLER), is_admin=False)
        text = statement_for(sql, caller, self.catalog).sql if checked else sql
        try:
            table = await self.runner.run(text, caller)
        except ToolRefused as refusal:
            if refusal.reason != "timeout":
                raise AssertionError(f"{refusal.message}: {text}") from refusal
            return [], False
        return [row[0] for row in table.rows if row[0] is not None], not table.truncated_by


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(fleet: Fleet) -> AsyncIterator[World]:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as connection:
        cursor = await connection.execute(
            "SELECT device_id::text FROM public.user_device_assignment WHERE user_id = %s", (CALLER,)
        )
        owned = {row[0] for row in await cursor.fetchall()}
        catalog = await read_catalog(connection, fleet.policy)
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
        limits = fleet.policy.limits.model_copy(update={"row_cap": 2000})
        runner = QueryRunner(pool, CallerSigner(SECRET), limits)
        yield World(runner, catalog, owned)
        await runner.aclose()


@pytest.mark.asyncio(loop_scope="module")
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=selects())
async def test_a_generated_query_returns_own_keys_only(world: World, sql: str) -> None:
    checked, all_checked = await world.keys(sql, checked=True)
    alone, all_alone = await world.keys(sql, checked=False)
    assert set(checked) <= world.owned, sql
    assert set(alone) <= world.owned, sql
    if all_checked and all_alone and "LIMIT" not in sql:
        # The shown filter and row-level security agree on whose rows they are.
        assert sorted(checked) == sorted(alone), sql
