"""A platform that does not answer is not a run that goes on, unless it was followed for as long as its user said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from signalbox.v1 import runs_pb2, threads_pb2

from services.cli import client
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import LONGEST_TIMEOUT_S, takeable
from tests.integration.cli.fake_gateway import FakeGateway, serving

RUN_ID = "00000000-0000-7000-8000-000000000001"
GIVEN_S = 0.4
EVENT = runs_pb2.RunEvent(sequence=1, run_id=RUN_ID, node_completed=runs_pb2.NodeCompleted(node="agent"))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CALL_TIMEOUT_S", GIVEN_S)


async def failure(gateway: FakeGateway, call: Callable[[GatewayClient], Awaitable[object]]) -> CliError:
    """What the command says of a call that fails."""
    async with serving(gateway) as address, open_gateway(Connection(address, "token")) as opened:
        with pytest.raises(CliError) as caught:
            await call(opened)
    return caught.value


async def follow(opened: GatewayClient, timeout_s: float | None) -> None:
    async for _ in opened.watch(RUN_ID, 0, timeout_s=timeout_s):
        pass


async def execute(opened: GatewayClient) -> None:
    async for _ in opened.execute(runs_pb2.CreateRunRequest(), timeout_s=GIVEN_S):
        pass


ENDED = runs_pb2.Run(run_id=RUN_ID, state=runs_pb2.RUN_STATE_SUCCEEDED)
CALLS: dict[str, Callable[[GatewayClient], Awaitable[object]]] = {
    "GetRun": lambda opened: opened.get(RUN_ID),
    "CancelRun": lambda opened: opened.cancel(RUN_ID),
    "ListDecisions": lambda opened: opened.decisions(RUN_ID),
    "ExplainRun": lambda opened: opened.explanation(RUN_ID),
    "ListRecordedAnswers": lambda opened: opened.recorded_answers(RUN_ID),
    "WatchRun": lambda opened: opened.steps(ENDED),
    "CreateRun": lambda opened: opened.create(runs_pb2.CreateRunRequest()),
    "GetThread": lambda opened: opened.call(
        opened.threads.GetThread, threads_pb2.GetThreadRequest(thread_id="t"), timeout_s=GIVEN_S
    ),
}


@pytest.mark.parametrize("method", CALLS)
async def test_a_call_without_an_answer_says_nothing_of_a_run(method: str) -> None:
    answers = {"ListDecisions": runs_pb2.ListDecisionsResponse()} if method == "WatchRun" else {}
    gateway = FakeGateway(answers)
    said = await failure(gateway, CALLS[method])
    assert gateway.asked[-1] == method
    assert (said.code, said.message) == (ExitCode.UNREACHABLE, "the platform did not answer within 0.4 s")
    assert "goes on" not in said.hint
    assert "cancel" not in said.hint


async def test_the_time_that_a_user_gave_to_follow_a_run_is_said_to_be_over() -> None:
    said = await failure(FakeGateway(), lambda opened: follow(opened, GIVEN_S))
    assert (said.code, said.message) == (ExitCode.TIMED_OUT, f"the time for run {RUN_ID} is over")
    assert f"signalbox cancel {RUN_ID}" in said.hint
    said = await failure(FakeGateway(), execute)
    assert (said.code, "signalbox runs" in said.hint) == (ExitCode.TIMED_OUT, True)


async def test_the_longest_time_that_a_command_takes_is_none_of_the_past() -> None:
    answers = {"WatchRun": runs_pb2.WatchRunResponse(event=EVENT)}
    async with serving(FakeGateway(answers)) as address, open_gateway(Connection(address, "token")) as opened:
        events = [event async for event in opened.watch(RUN_ID, 0, timeout_s=takeable(LONGEST_TIMEOUT_S))]
    assert events == [EVENT]


async def test_a_command_that_takes_longer_than_a_token_lives_asks_with_the_next() -> None:
    gateway, tokens = FakeGateway({"CancelRun": runs_pb2.CancelRunResponse(run=ENDED)}), iter(["first", "second"])
    async with serving(gateway) as address:
        connection = Connection(address, "first", renewed=lambda: next(tokens))
        async with open_gateway(connection) as opened:
            for _ in range(2):
                await opened.cancel(RUN_ID)
    assert gateway.tokens == ["first", "second"]
