"""Whatever goes wrong in a node or its router is a `node_failed` decision with a reason, and its calls are charged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from signalbox_routing.table import END, Router, Rule
from signalbox_routing.terms import Always, terms

from services.runtime.engine.records import RunRecord, RunState
from services.runtime.routing.calls import noting
from services.runtime.routing.graph import AgentGraph, RoutedNode
from tests.fixtures.replica import Counting, CountingPolicy, CountingState, Replica
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Facts:
    """Something that a router knows."""

    known: Any
    count: int = 1


class Reckless(Counting):
    """Makes one call, changes state as told, and routes on facts as told; an exception for facts is raised."""

    def __init__(self, *, facts: Any = 1, update: dict[str, Any] | None = None, known: Any = 1) -> None:
        super().__init__()

        def take(_: Any) -> Facts:
            if isinstance(facts, Exception):
                raise facts
            return Facts(facts, known)

        async def count(_state: Any, _context: Any) -> dict[str, Any]:
            with noting("model", "counter") as call:
                call["input_tokens"] = 5
            return {"counts": [1], "status": "completed", **(update or {})}

        router = Router[Facts, CountingPolicy](
            "counting.route_after_count",
            facts=take,
            policy=CountingPolicy(),
            rules=[Rule("first", END, terms(Facts).count > 1), Rule("otherwise", END, Always())],
        )
        node = RoutedNode("count", count, router, concludes=True)
        self.graph = AgentGraph("counting", CountingState, "count", (node,))


async def failed(start_replica: StartReplica, counting: Counting) -> tuple[RunRecord, tuple[Any, ...]]:
    """Runs it to its end; returns the run and the last row of its ledger."""
    replica: Replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, run)
    async with replica.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT router, rule, destination, facts, calls FROM platform.decisions"
            " WHERE run_id = %s ORDER BY sequence DESC LIMIT 1",
            [run.run_id],
        )
        row = await cursor.fetchone()
    assert row is not None
    return done, row


@pytest.mark.parametrize(
    ("counting", "reason", "words"),
    [
        (Reckless(facts=KeyError("unforeseen")), "ROUTER_FAILED", "raised KeyError"),
        (Reckless(known="three"), "ROUTER_FAILED", "raised TypeError"),
        (Reckless(facts="a\0b"), "NOT_STORABLE", "NUL"),
        (Reckless(facts="half \ud800"), "NOT_STORABLE", "surrogates"),
        (Reckless(facts=2**70), "NOT_STORABLE", "64-bit"),
        (Reckless(facts={"deep": [{"a": 2**70}]}), "NOT_STORABLE", "64-bit"),
        (Reckless(update={"total": 2**70}), "NOT_STORABLE", "64-bit"),
        (Reckless(update={"status": "in_progress"}), "STATUS_FORGOTTEN", "'count', which did not say how"),
    ],
    ids=["facts", "rule", "nul", "surrogate", "number", "deep", "state", "status"],
)
async def test_it_is_decided_and_charged(
    start_replica: StartReplica, counting: Counting, reason: str, words: str
) -> None:
    done, (router, rule, destination, facts, calls) = await failed(start_replica, counting)
    assert (done.state, done.stop_reason) == (RunState.FAILED, "node_failed")
    assert words in done.error
    assert (router, rule, destination) == ("counting.route_after_count", "node_failed", "__end__")
    assert facts == {"error_reason": reason}
    assert [call["name"] for call in calls] == ["counter"]
    assert (done.spend["model_calls"], done.spend["input_tokens"]) == (1, 5)


@pytest.mark.parametrize("facts", ["a \\u0000 b", "a \\\\u0000", "\\", 2**63 - 1, "\u2028", "é"])
async def test_what_only_looks_odd_is_stored(start_replica: StartReplica, facts: Any) -> None:
    done, (_, rule, _, stored, _) = await failed(start_replica, Reckless(facts=facts))
    assert (done.state, rule, stored) == (RunState.SUCCEEDED, "otherwise", {"known": facts, "count": 1})


async def test_a_node_that_hangs_ends_by_its_own_limit(start_replica: StartReplica) -> None:
    counting = Counting(node_timeout_s=0.5)

    async def hang() -> None:
        with noting("model", "counter") as call:
            call["input_tokens"] = 3
        with noting("tool", "forever"):
            await asyncio.Event().wait()

    counting.failures[2] = hang
    done, (_, rule, _, facts, calls) = await failed(start_replica, counting)
    assert (done.state, done.error) == (RunState.FAILED, "the node 'count' did not end within 0.5 s")
    assert (rule, facts) == ("node_failed", {"error_reason": "NODE_TIMED_OUT"})
    assert [(call["name"], call["outcome"]) for call in calls] == [("counter", "ok"), ("forever", "CancelledError")]
    assert done.spend["tool_calls"] == 1
    assert done.spend["input_tokens"] == 10 + 3
    assert done.spend["wall_time_s"] >= 0.5


async def test_a_timeout_of_the_nodes_own_is_not_its_limit(start_replica: StartReplica) -> None:
    counting = Counting()

    async def impatient() -> None:
        raise TimeoutError

    counting.failures[1] = impatient
    _, (_, _, _, facts, _) = await failed(start_replica, counting)
    assert facts == {"error_reason": "TimeoutError"}


async def test_an_error_that_nobody_foresaw_shows_no_internals(start_replica: StartReplica) -> None:
    counting = Counting()

    async def reveal() -> None:
        raise ValueError("postgresql://owner:hunter2@db/platform")

    counting.failures[1] = reveal
    done, (_, _, _, facts, _) = await failed(start_replica, counting)
    assert (done.state, done.error) == (RunState.FAILED, "an internal error; see the run's trace")
    assert facts == {"error_reason": "ValueError"}
