"""A run whose dependency is away waits for it, holding no slot, within its wall time."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import REGISTRY

from services.runtime.calls.breaker import Breaker
from services.runtime.engine.events import Event
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.errors import DependencyAway
from services.runtime.metrics import RUNS_WAITING
from services.runtime.routing.calls import noting
from services.runtime.routing.waiting import FIRST_WAIT_S, WAIT
from tests.fixtures.replica import BUDGET, Counting, Replica
from tests.integration.runtime.conftest import AGENTS, StartReplica, ended, new_run

TIMEOUT_S = 60.0
# Enough for several attempts, also of a machine that stands still for a while in one of them.
WALL_TIME_S = 4.0
ORACLE = "oracle"


async def nameless() -> None:
    """Is away for a reason that Postgres has no text for."""
    raise DependencyAway(ORACLE, "UN\0AVAILABLE")


class Outage:
    """Is away until it is told to come back; `tried` counts the attempts."""

    def __init__(self) -> None:
        self.back = False
        self.tried = 0
        self._changed = asyncio.Condition()

    async def __call__(self) -> None:
        async with self._changed:
            self.tried += 1
            self._changed.notify_all()
        if not self.back:
            with noting("tool", "ask_oracle"):
                raise DependencyAway(ORACLE, "UNAVAILABLE")

    async def seen(self, times: int) -> None:
        """Waits for that many attempts."""
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(lambda: self.tried >= times)


async def until_waiting(replica: Replica, run: RunRecord) -> RunRecord:
    """Waits until a run waits, and returns it as it does."""
    async with asyncio.timeout(TIMEOUT_S):
        async for event in replica.engine.watch(run, 0):
            if event.kind == "state_changed" and (event.payload or {}).get("state") == "PENDING":
                break
    return await replica.store.get(run.run_id, run.caller)


async def rows(replica: Replica, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(statement.encode(), parameters)
        found: list[tuple[Any, ...]] = await cursor.fetchall()
        return found


async def events_of(replica: Replica, run: RunRecord) -> list[Event]:
    async with asyncio.timeout(TIMEOUT_S):
        return [event async for event in replica.engine.watch(run, 0)]


def waiting_metric() -> float:
    return REGISTRY.get_sample_value("signalbox_runs_waiting", {"dependency": ORACLE}) or 0.0


async def test_an_outage_is_waited_for_and_told(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[2] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    await outage.seen(3)
    outage.back = True
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, run)

    assert (done.state, done.stop_reason, done.error) == (RunState.SUCCEEDED, "", "")
    assert [number for _, number in counting.counted] == [1, 2, 3]
    ledger = await rows(
        replica,
        "SELECT calls, node_elapsed_ms FROM platform.decisions WHERE run_id = %s ORDER BY sequence",
        run.run_id,
    )
    [_, (calls, elapsed_ms), _] = ledger
    assert [(call["kind"], call["name"], call["outcome"]) for call in calls] == [
        (WAIT, ORACLE, "UNAVAILABLE"),
        ("model", "counter", "ok"),
    ]
    assert calls[0]["elapsed_ms"] > 0
    assert elapsed_ms >= calls[0]["elapsed_ms"]
    # Calls that reached nobody are charged to nobody; the time is.
    assert (done.spend["model_calls"], done.spend["tool_calls"]) == (3, 0)
    # Each is told to the microsecond.
    assert done.spend["wall_time_s"] >= calls[0]["elapsed_ms"] / 1000 - 1e-5
    told = [event.payload for event in await events_of(replica, done) if event.kind == "state_changed"]
    waits = [payload for payload in told if payload and payload["state"] == "PENDING"]
    assert {(wait["waiting_for"], wait["cause"]) for wait in waits} == {(ORACLE, "UNAVAILABLE")}
    assert len(waits) == outage.tried - 1
    assert (done.attempts, done.waiting_for, done.not_before, done.idle_claims) == ([], "", None, 0)


async def test_a_waiting_run_holds_no_slot_and_anybody_goes_on(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[2] = outage
    first = await start_replica(counting)
    run, _ = await first.engine.create(new_run())
    waiting = await until_waiting(first, run)
    assert (waiting.state, waiting.waiting_for) == (RunState.PENDING, ORACLE)
    other, _ = await first.engine.create(new_run(until=1))
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(first, other)).state is RunState.SUCCEEDED
    await first.engine.drain()
    second = await start_replica(Counting())  # for whom it is not away
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(second, run)
    assert done.state is RunState.SUCCEEDED
    assert [number for _, number in second.counting.counted] == [2, 3]


async def test_nobody_claims_it_before_its_time(start_replica: StartReplica) -> None:
    replica = await start_replica(sweep_interval_s=3600.0)
    await replica.engine.drain()  # it might be the one that claims
    run, _ = await replica.store.create(new_run(), claim=False)
    await rows(
        replica,
        "UPDATE platform.runs SET not_before = 'tomorrow', waiting_for = %s WHERE run_id = %s RETURNING 1",
        ORACLE,
        run.run_id,
    )
    assert await replica.upkeep.claim_pending(1, AGENTS) == []
    await rows(replica, "UPDATE platform.runs SET not_before = now() WHERE run_id = %s RETURNING 1", run.run_id)
    [claimed] = await replica.upkeep.claim_pending(1, AGENTS)
    assert (claimed.run_id, claimed.not_before, claimed.waiting_for) == (run.run_id, None, "")


async def test_the_claim_loop_wakes_in_time(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[1] = outage
    replica = await start_replica(counting, sweep_interval_s=3600.0)  # nothing else wakes it
    run, _ = await replica.engine.create(new_run())
    await outage.seen(2)
    outage.back = True
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED


async def test_a_spent_wall_time_names_what_was_away(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[2] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(budget={**BUDGET, "wall_time_s": WALL_TIME_S}))
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, run)

    assert (done.state, done.stop_reason) == (RunState.FAILED, "node_failed")
    assert done.error == "the oracle is away (UNAVAILABLE); try again later"
    assert outage.tried > 1
    assert done.spend["wall_time_s"] > WALL_TIME_S - FIRST_WAIT_S
    [(rule, facts, calls)] = await rows(
        replica,
        "SELECT rule, facts, calls FROM platform.decisions WHERE run_id = %s ORDER BY sequence DESC LIMIT 1",
        run.run_id,
    )
    assert rule == "node_failed"
    assert facts == {"error_reason": "DEPENDENCY_AWAY", "dependency": ORACLE, "cause": "UNAVAILABLE"}
    assert [(call["kind"], call["name"]) for call in calls] == [(WAIT, ORACLE), ("tool", "ask_oracle")]


async def test_a_waiting_run_is_counted_and_can_be_cancelled(start_replica: StartReplica) -> None:
    RUNS_WAITING.clear()  # other replicas of this process have set it
    counting, outage = Counting(), Outage()
    counting.failures[1] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    await until_waiting(replica, run)
    async with asyncio.timeout(TIMEOUT_S):
        while waiting_metric() != 1.0:  # noqa: ASYNC110 - the sweep sets it
            await asyncio.sleep(0.01)
    await replica.engine.cancel(run.run_id, run.caller)
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.CANCELLED
        while waiting_metric() != 0.0:  # noqa: ASYNC110 - the sweep sets it
            await asyncio.sleep(0.01)


async def test_waits_are_no_claims_in_vain(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[1] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=1))
    await until_waiting(replica, run)
    await rows(replica, "UPDATE platform.runs SET idle_claims = 9 WHERE run_id = %s RETURNING 1", run.run_id)
    await outage.seen(4)
    outage.back = True
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED


async def test_what_a_model_was_paid_in_vain_is_charged_once(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()

    async def paid_then_away() -> None:
        with noting("model", "opening") as call:
            call["input_tokens"] = 7
        await outage()

    counting.failures[2] = paid_then_away
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    await outage.seen(2)
    outage.back = True
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, run)
    assert done.spend["model_calls"] == 3 + outage.tried
    assert done.spend["input_tokens"] == 3 * 10 + 7 * outage.tried


async def test_drain_is_not_held_up(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[1] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    await outage.seen(1)
    async with asyncio.timeout(TIMEOUT_S):
        await replica.engine.drain()
    assert (await replica.store.get(run.run_id, run.caller)).state is RunState.PENDING


async def test_a_run_without_a_limit_waits_on(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[1] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(budget={**BUDGET, "wall_time_s": 0.0}))
    await outage.seen(3)
    outage.back = True
    async with asyncio.timeout(TIMEOUT_S):
        assert (await ended(replica, run)).state is RunState.SUCCEEDED


async def test_a_wait_that_cannot_be_written_down_ends_the_run(start_replica: StartReplica) -> None:
    """Else every claim of it would come to the same, and ask its models again."""
    counting = Counting()
    counting.failures[2] = nameless
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=3))
    over = await ended(replica, run)
    assert (over.state, over.stop_reason, over.epoch) == (RunState.FAILED, "internal_error", 1)


async def test_runs_whose_own_calls_fail_make_no_other_wait(start_replica: StartReplica) -> None:
    counting, breaker = Counting(), Breaker(ORACLE)
    opened = asyncio.Event()

    async def answered() -> None:
        with breaker.passing():
            pass

    async def dropped() -> None:
        try:
            with breaker.passing():
                raise DependencyAway(ORACLE, "connection")
        finally:
            if breaker.is_open:
                opened.set()

    counting.failures |= {1: answered, 2: dropped}
    replica = await start_replica(counting)
    failing = [(await replica.engine.create(new_run(until=2)))[0] for _ in range(6)]
    async with asyncio.timeout(TIMEOUT_S):
        await opened.wait()
        run, _ = await replica.engine.create(new_run(until=1))
        done = await ended(replica, run)
    assert done.state is RunState.SUCCEEDED
    [(calls,)] = await rows(replica, "SELECT calls FROM platform.decisions WHERE run_id = %s", run.run_id)
    assert [call["kind"] for call in calls] == ["model"], "it waited for nothing"
    for other in failing:
        await replica.engine.cancel(other.run_id, other.caller)
