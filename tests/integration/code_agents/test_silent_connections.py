"""The runtime's connections to the code executor and the evaluator go silent one way: the finding is settled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.fixtures.silent_proxy import Direction, SilentProxy
from tests.integration.code_agents.conftest import TAINTED, MakeBench, critique, draft

READING = (
    Reply.tool_call("read_file", {"path": "app/db.py"}),
    Reply.tool_call("read_file", {"path": "app/web.py"}),
    Reply.text("The code bank has it all."),
)
NOTICED_WITHIN_S = 240.0


@dataclass(frozen=True)
class Gates:
    """What the models wait for before the last read, and before the verdict."""

    read: asyncio.Event
    verdict: asyncio.Event

    def research(self, request: ModelRequest) -> Reply:
        """The next read; asked again, when a read was lost, the same."""
        have = sum(message["role"] == "tool" for message in request.messages)
        return READING[have].after(self.read) if have == 1 else READING[min(have, 2)]

    def analysis(self, _: ModelRequest) -> Reply:
        """The verdict."""
        return draft("TRUE_POSITIVE", TAINTED).after(self.verdict)


def lose(wire: SilentProxy, direction: Direction) -> None:
    """Every connection that is open loses what goes in a direction; new ones work."""
    assert wire.connections
    wire.silence(direction)
    wire.speak()


@pytest.mark.parametrize("direction", [Direction.CALLS, Direction.ANSWERS])
async def test_a_finding_is_settled_though_each_connection_goes_silent_once(
    make_bench: MakeBench, direction: Direction
) -> None:
    gates = Gates(asyncio.Event(), asyncio.Event())
    async with make_bench() as bench, SilentProxy() as executor, SilentProxy() as judge:
        executor.upstream = urlsplit(bench.settings.code_executor_target.replace("ipv4:", "//")).netloc
        judge.upstream = urlsplit(bench.settings.evaluator_target.replace("ipv4:", "//")).netloc
        bench.settings = bench.settings.model_copy(
            update={
                "code_executor_target": f"ipv4:{executor.address}",
                "evaluator_target": f"ipv4:{judge.address}",
            }
        )
        bench.model.respond("research", gates.research)
        bench.model.respond("analysis", gates.analysis)
        bench.model.respond("judge", lambda _: critique("approved"))
        async with bench.runtime(), asyncio.timeout(NOTICED_WITHIN_S):
            run_id = await bench.create("sast_investigation")
            await bench.model.wait_for_requests(2, model="research", timeout_s=NOTICED_WITHIN_S)
            lose(executor, direction)
            gates.read.set()
            await bench.model.wait_for_requests(1, model="analysis", timeout_s=NOTICED_WITHIN_S)
            lose(judge, direction)
            gates.verdict.set()
            ended = await bench.watch(run_id, timeout_s=NOTICED_WITHIN_S)
    assert (ended.state, ended.verdict, ended.run.error) == ("SUCCEEDED", "TRUE_POSITIVE", "")
