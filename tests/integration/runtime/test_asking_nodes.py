"""A node that asks a person does nothing else, and asks once: what it does more is refused, said, and charged."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.kit.identity.caller import Caller
from services.runtime.engine.questions import Answer
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.routing.asking import ask_person
from services.runtime.routing.calls import noting
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.state import COMPLETED
from tests.fixtures.replica import Counting, CountingState
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0


class Asking(Counting):
    """Makes calls, then asks questions, all in one node."""

    def __init__(self, *, calls: int = 0, questions: int = 1, asks: bool = True) -> None:
        super().__init__()

        async def count(_state: Any, _context: Any) -> dict[str, Any]:
            for _ in range(calls):
                with noting("model", "counter") as call:
                    call["input_tokens"] = 5
            for number in range(questions):
                ask_person(f"Number {number}?", ["yes"], expires_in_s=60)
            return {"counts": [1], "status": COMPLETED}

        node = RoutedNode("count", count, concludes=True, asks=asks)
        self.graph = AgentGraph("counting", CountingState, "count", (node,))


async def asked(start_replica: StartReplica, agent: Asking) -> RunRecord:
    """Runs it, and answers what it asks, until it ends."""
    replica = await start_replica(agent)
    run, _ = await replica.engine.create(new_run())
    async with asyncio.timeout(TIMEOUT_S):
        while not (run := await ended(replica, run)).state.ended:
            assert run.input_request
            await replica.engine.answer(
                Caller(run.caller.subject), Answer(run.run_id, run.input_request.input_request_id, "yes")
            )
    return run


async def test_a_node_that_only_asks(start_replica: StartReplica) -> None:
    run = await asked(start_replica, Asking())
    assert (run.state, run.spend["model_calls"]) == (RunState.SUCCEEDED, 0)


@pytest.mark.parametrize(
    ("agent", "said", "charged"),
    [
        (Asking(calls=2), "called 'counter' before it asked", 2),
        (Asking(questions=2), "asks a person twice", 0),
        (Asking(asks=False), "does not say that it does (asks=True)", 0),
    ],
)
async def test_a_node_that_does_more(start_replica: StartReplica, agent: Asking, said: str, charged: int) -> None:
    run = await asked(start_replica, agent)
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert said in run.error
    assert run.spend["model_calls"] == charged
