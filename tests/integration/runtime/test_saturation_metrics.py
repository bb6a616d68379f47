"""What a replica tells of its own room and of what waits: the numbers that replicas are added by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from prometheus_client import REGISTRY

from services.kit.outcome import Outcome
from services.runtime.calls.model_price import ModelPrice
from services.runtime.calls.prices import MOST_MODELS, Prices, tokens_by_model
from services.runtime.engine.questions import Answer
from services.runtime.engine.records import InputRequest
from services.runtime.errors import ClaimLost
from services.runtime.metrics import count_from_zero
from services.runtime.routing.recorder import CallRecord
from tests.fixtures.replica import BUDGET, Counting, Replica
from tests.integration.runtime.conftest import AGENT, AGENTS, OwnerStore, StartReplica, ended, new_run

TIMEOUT_S = 120.0
HOUR_S = 3600.0
WORKS = ("claim", "sweep")
count_from_zero([(Counting().graph, (Outcome.DONE,))])


def value(name: str, **labels: str) -> float:
    """A sample of this process; a missing one is no 0."""
    found = REGISTRY.get_sample_value(f"signalbox_{name}", labels)
    assert found is not None, f"there is no {name} with {labels}"
    return found


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - metrics tell nobody that they change
            await asyncio.sleep(0.01)


async def age(replica: Replica, run_id: str, hours: float = 1.0) -> None:
    """Makes a run older, and what has happened to it so far."""
    async with replica.pool.connection() as connection:
        for table in (b"runs", b"run_events"):
            statement = b"UPDATE platform." + table + b" SET created_at = created_at - make_interval(secs => %s)"
            await connection.execute(statement + b" WHERE run_id = %s", [hours * HOUR_S, run_id])


async def test_runs_that_wait_for_room_are_counted_with_the_age_of_the_oldest(start_replica: StartReplica) -> None:
    replica = await start_replica(max_concurrent_runs=1)
    gate = replica.counting.hold(1)
    begun, _ = await replica.engine.create(new_run(until=1))
    waiting = [(await replica.engine.create(new_run(until=1)))[0] for _ in range(3)]
    await age(replica, waiting[1].run_id)
    await until(
        lambda: (
            value("runs_pending", pool="runtime") == 3
            and value("runs_pending_oldest_age_seconds", pool="runtime") >= HOUR_S
        )
    )
    assert (value("runs_active"), value("runs_capacity")) == (1, 1)
    gate.set()
    for run in (begun, *waiting):
        await ended(replica, run)
    await until(
        lambda: (
            value("runs_pending", pool="runtime")
            == value("runs_pending_oldest_age_seconds", pool="runtime")
            == value("runs_active")
            == 0
        )
    )


async def test_what_no_replica_may_begin_yet_makes_no_age(start_replica: StartReplica) -> None:
    """Another replica would not help: a thread's next run, one that waits for what is away, one answered just now."""
    replica = await start_replica(max_concurrent_runs=1)
    gate = replica.counting.hold(1)
    begun, _ = await replica.engine.create(new_run(until=1, thread_id="talk"))
    await until(replica.counting.reached.is_set)
    behind, _ = await replica.store.create(new_run(until=1, thread_id="talk", active_run_policy="queue"), claim=False)
    away, _ = await replica.store.create(new_run(until=1), claim=False)
    async with replica.pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET not_before = now() + interval '1 h', waiting_for = 'guard' WHERE run_id = %s",
            [away.run_id],
        )
    for run in (behind, away):
        await age(replica, run.run_id)
    await replica.admission.count()
    assert (value("runs_pending", pool="runtime"), value("runs_pending_oldest_age_seconds", pool="runtime")) == (2, 0)
    async with replica.pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET not_before = now() WHERE run_id = %s", [away.run_id])
    await replica.admission.count()
    assert 0 <= value("runs_pending_oldest_age_seconds", pool="runtime") < HOUR_S, (
        "it has been free to begin since a moment ago"
    )
    gate.set()
    for run in (begun, behind, away):
        await ended(replica, run)


async def test_questions_are_counted_with_the_age_of_the_oldest_until_they_are_answered(
    start_replica: StartReplica,
) -> None:
    replica = await start_replica()
    replica.counting.asks = {2}
    runs = [(await replica.engine.create(new_run(until=3)))[0] for _ in range(2)]
    await until(lambda: value("questions_waiting", agent=AGENT) == 2)
    await age(replica, runs[0].run_id)
    await until(lambda: value("questions_oldest_age_seconds", agent=AGENT) >= HOUR_S)
    for run in runs:
        asking = await replica.store.get(run.run_id, run.caller)
        assert asking.input_request is not None
        await replica.engine.answer(run.caller, Answer(run.run_id, asking.input_request.input_request_id, "yes"))
    await until(
        lambda: value("questions_waiting", agent=AGENT) == value("questions_oldest_age_seconds", agent=AGENT) == 0
    )


async def test_each_pool_tells_how_full_it_is_and_how_many_wait(start_replica: StartReplica) -> None:
    replica = await start_replica(pool_size=8)
    calls = replica.pools.calls
    assert value("database_connections_max", pool="calls") == calls.max_size
    async with AsyncExitStack() as stack:
        for _ in range(calls.max_size):
            await stack.enter_async_context(calls.connection())
        waiting = asyncio.create_task(calls.getconn())
        await until(lambda: value("database_connection_waits", pool="calls") == 1)
        assert value("database_connections", pool="calls") == calls.max_size
        assert value("database_connections_in_use", pool="calls") == calls.max_size
    await calls.putconn(await waiting)
    await until(lambda: value("database_connections_in_use", pool="calls") == 0)
    assert value("database_connection_waits", pool="calls") == 0
    assert value("database_connections_max", pool="steps") == replica.pools.steps.max_size


async def test_work_that_gets_done_says_when_and_work_that_does_not_falls_behind(start_replica: StartReplica) -> None:
    began = time.time()
    replica = await start_replica()
    await until(lambda: min(value("background_last_success_timestamp_seconds", work=w) for w in WORKS) >= began)
    before = {work: value("background_last_success_timestamp_seconds", work=work) for work in WORKS}
    await until(lambda: all(value("background_last_success_timestamp_seconds", work=w) > before[w] for w in WORKS))

    async def fail(*_: object) -> None:
        raise ClaimLost("made up")

    replica.upkeep.due = fail  # type: ignore[assignment,method-assign]
    failures = value("background_failures_total", work="sweep")
    await until(lambda: value("background_failures_total", work="sweep") > failures)
    last = value("background_last_success_timestamp_seconds", work="sweep")
    claimed = value("background_last_success_timestamp_seconds", work="claim")
    await until(lambda: value("background_last_success_timestamp_seconds", work="claim") > claimed)
    assert value("background_last_success_timestamp_seconds", work="sweep") == last


async def test_what_a_run_used_of_its_budget_is_counted_when_it_ends(start_replica: StartReplica) -> None:
    replica = await start_replica()
    name, of_half = "run_budget_used_ratio_bucket", {"agent": AGENT, "budget": "model_calls"}
    before = _sample(name, le="0.9", **of_half)
    unlimited = _sample("run_budget_used_ratio_count", agent=AGENT, budget="tool_calls")
    budget = {**BUDGET, "model_calls": 8, "tool_calls": 0}
    run, _ = await replica.engine.create(new_run(until=4, budget=budget))
    await ended(replica, run)
    assert _sample(name, le="0.9", **of_half) == before + 1, "four of eight calls"
    assert _sample("run_budget_used_ratio_count", agent=AGENT, budget="tool_calls") == unlimited


def _sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"signalbox_{name}", labels) or 0.0


async def test_tokens_of_an_agent_are_counted_and_priced_where_there_is_a_price(start_replica: StartReplica) -> None:
    before = {name: _sample(name, agent=AGENT) for name in ("agent_cost_total", "agent_unpriced_tokens_total")}
    given, made = (_sample("agent_tokens_total", agent=AGENT, direction=way) for way in ("input", "output"))
    by_model = [
        _sample("model_spent_tokens_total", model="counter"),
        _sample("model_cost_total", model="counter"),
    ]
    priced = await start_replica(prices={"counter": (2.0, 10.0)})
    run, _ = await priced.engine.create(new_run(until=3))
    await ended(priced, run)
    assert _sample("agent_tokens_total", agent=AGENT, direction="input") == given + 30
    assert _sample("agent_tokens_total", agent=AGENT, direction="output") == made + 3
    cost = _sample("agent_cost_total", agent=AGENT) - before["agent_cost_total"]
    assert abs(cost - (30 * 2 + 3 * 10) / 1e6) < 1e-9
    assert _sample("model_spent_tokens_total", model="counter") == by_model[0] + 33
    assert abs(_sample("model_cost_total", model="counter") - by_model[1] - cost) < 1e-9
    assert _sample("agent_unpriced_tokens_total", agent=AGENT) == before["agent_unpriced_tokens_total"]

    unpriced = await start_replica()
    run, _ = await unpriced.engine.create(new_run(until=3))
    await ended(unpriced, run)
    assert _sample("agent_unpriced_tokens_total", agent=AGENT) == before["agent_unpriced_tokens_total"] + 33


def test_models_that_an_endpoint_names_without_end_are_one_in_the_end() -> None:
    prices = Prices()
    for number in range(MOST_MODELS + 5):
        call = CallRecord(
            kind="model", name=f"named {number}", outcome="ok", elapsed_ms=1, input_tokens=2, output_tokens=1
        )
        prices.count(AGENT, [call])
    assert _sample("model_spent_tokens_total", model="other") == 15


def test_input_that_was_cached_has_its_own_price() -> None:
    call = CallRecord(
        kind="model", name="large", outcome="ok", elapsed_ms=1, input_tokens=100, output_tokens=10, cached_tokens=60
    )
    [tokens] = tokens_by_model([call])
    assert Prices({"large": ModelPrice(input=10, output=20, cached=1)}).cost(tokens) == pytest.approx(660e-6)
    assert Prices({"large": ModelPrice(input=10, output=20)}).cost(tokens) == pytest.approx(1200e-6)
    assert Prices({"small": ModelPrice(input=10, output=20)}).cost(tokens) is None
    with pytest.raises(ValueError, match="not negative"):
        ModelPrice(input=float("nan"), output=1)


async def test_a_question_of_a_run_that_is_gone_leaves_nothing_behind(first: OwnerStore) -> None:
    run, _ = await first.create(new_run(), claim=True)
    await first.await_input(run, InputRequest("question", "What now?", (), run.created_at))
    assert set(await first.upkeep.questions()) == {AGENT}
    await first.upkeep.expire_questions()
    assert await first.upkeep.questions() == {}
    assert await first.upkeep.claim_pending(1, AGENTS) == []
