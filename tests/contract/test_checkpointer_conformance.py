"""The saver keeps LangGraph's checkpointer contract, all of it."""

from collections.abc import AsyncIterator
from typing import Any

from langgraph.checkpoint.conformance import checkpointer_test, validate
from psycopg_pool import AsyncConnectionPool

from services.runtime.engine.saver import RunSaver
from services.runtime.engine.serde import make_serde


async def test_every_capability_passes(platform_pool: AsyncConnectionPool[Any]) -> None:
    @checkpointer_test(name="RunSaver")
    async def run_saver() -> AsyncIterator[RunSaver]:
        yield RunSaver(platform_pool, make_serde())

    report = await validate(run_saver)
    results = report.results
    failures = {name: result.failures for name, result in results.items() if result.failures}
    assert not failures
    assert {name for name, result in results.items() if result.passed} >= {"copy_thread", "delete_for_runs", "prune"}
    assert sum(result.tests_passed for result in results.values()) >= 81
