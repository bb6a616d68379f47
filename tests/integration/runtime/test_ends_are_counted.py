"""Every run that ends is counted, whoever ends it: its replica, its caller, time, or a replica that finds it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY

from services.runtime.engine.records import ActiveRunPolicy, InputRequest, RunRecord
from tests.integration.runtime.conftest import OwnerStore, new_run


@pytest.fixture
def agent() -> str:
    """The name of an agent that no other test counts."""
    return f"agent-{uuid4()}"


@pytest.fixture(autouse=True)
def expected(agent: str) -> Iterator[dict[str, str]]:
    """How the one run that a test ends is counted; checked after the test."""
    labels: dict[str, str] = {"state": "CANCELLED", "outcome": "cancelled", "stop_reason": "cancelled"}
    yield labels
    for name, told in (
        ("signalbox_runs_ended_total", ("state", "stop_reason")),
        ("signalbox_run_outcomes_total", ("outcome",)),
        ("signalbox_run_duration_seconds_count", ("state",)),
    ):
        assert REGISTRY.get_sample_value(name, {"agent": agent, **{label: labels[label] for label in told}}) == 1


async def claimed(store: OwnerStore, agent: str, **changes: str) -> RunRecord:
    run, _ = await store.create(new_run(agent=agent, **changes), claim=True)
    return run


async def test_cancelled_before_it_began(first: OwnerStore, agent: str) -> None:
    run, _ = await first.create(new_run(agent=agent), claim=False)
    await first.cancel(run.run_id, run.caller)
    await first.cancel(run.run_id, run.caller)


async def test_cancelled_for_another_run_of_its_thread(first: OwnerStore, agent: str) -> None:
    await first.create(new_run(agent=agent, thread_id="talk"), claim=False)
    policy = ActiveRunPolicy.CANCEL_ACTIVE
    await first.create(new_run(agent=agent, thread_id="talk", active_run_policy=policy), claim=False)


async def test_cancelled_when_it_is_let_go_of(first: OwnerStore, agent: str) -> None:
    run = await claimed(first, agent)
    await first.cancel(run.run_id, run.caller)
    await first.release(run)


async def test_cancelled_when_its_replica_is_gone(first: OwnerStore, second: OwnerStore, agent: str) -> None:
    run = await claimed(first, agent)
    await first.cancel(run.run_id, run.caller)
    assert [run.run_id for run in (await second.upkeep.take_over()).freed] == [run.run_id]


async def test_not_answered_in_time(first: OwnerStore, agent: str, expected: dict[str, str]) -> None:
    expected |= {"state": "NEEDS_REVIEW", "outcome": "unfinished", "stop_reason": "input_expired"}
    run = await claimed(first, agent)
    await first.await_input(run, InputRequest("question", "What now?", (), datetime(2020, 1, 1, tzinfo=UTC)))
    # It ends, and does not go on.
    assert run.run_id not in [going_on.run_id for going_on in await first.upkeep.expire_questions()]
