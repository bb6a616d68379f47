"""A thread's stream: its runs have the same numbers for all who come, and what ends the stream ends no run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
from signalbox.v1 import agents_pb2, hosted_pb2, runs_pb2, threads_pb2

from services.http_api.errors import ApiError, TokenRefused
from services.http_api.event_stream import CutOff
from services.http_api.thread_events import ThreadEvent
from services.http_api.thread_stream import StreamBody, ThreadStream

CREATED_S = 1_795_788_796
TALK = agents_pb2.Agent(name="talk", input_type=hosted_pb2.GraphInput.DESCRIPTOR.full_name)


def a_run(name: str, after_s: int = 0, *, has_ended: bool = False) -> runs_pb2.Run:
    run = runs_pb2.Run(run_id=name, agent="talk", thread_id="t")
    run.create_time.FromSeconds(CREATED_S + after_s)
    if has_ended:
        run.end_time.FromSeconds(CREATED_S + after_s + 1)
    return run


class FakeCaller:
    """A caller of a gateway that has an agent, or none, and refuses to let a run be watched."""

    subject = "27"

    def __init__(self, agents: Sequence[agents_pb2.Agent] = (), refusal: ApiError | None = None) -> None:
        self._refusal = refusal
        self.stubs = SimpleNamespace(
            agents=SimpleNamespace(ListAgents=lambda _: agents_pb2.ListAgentsResponse(agents=agents)),
            runs=SimpleNamespace(ListRuns=lambda _: runs_pb2.ListRunsResponse()),
            threads=SimpleNamespace(ListRunStates=lambda _: threads_pb2.ListRunStatesResponse()),
        )

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)

    async def watch(self, _request: Any) -> AsyncGenerator[runs_pb2.RunEvent, None]:
        if self._refusal:
            raise self._refusal
        yield runs_pb2.RunEvent()


async def heard(caller: Any, *runs: runs_pb2.Run, count: int, since: int | None = None) -> list[ThreadEvent]:
    body, found = StreamBody(channels=["lifecycle"], since=since), list[ThreadEvent]()
    stream = ThreadStream(caller, "t", body, runs, asyncio.Event(), recovery_s=5)
    async with aclosing(stream.events()) as events, asyncio.timeout(10):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_runs_that_were_created_at_once_have_the_same_numbers_for_whoever_comes_later() -> None:
    first, second, third = a_run("first", has_ended=True), a_run("second"), a_run("third", 60)
    early = await heard(FakeCaller(), second, first, count=4)
    assert [event.number for event in early] == sorted({event.number for event in early})
    of_second = {event.id: event.number for event in early if "second" in event.id}
    late = await heard(FakeCaller(), third, second, first, count=2)
    assert {event.id: event.number for event in late} == of_second
    # Who goes on behind what they heard of it hears the rest.
    rest = await heard(FakeCaller(), third, second, first, count=1, since=min(of_second.values()))
    assert [event.id for event in rest] == [early[-1].id]


async def test_a_token_that_is_taken_no_more_ends_the_stream_and_is_no_end_of_the_run() -> None:
    with pytest.raises(CutOff, match="it has expired"):
        await heard(FakeCaller([TALK], TokenRefused("it has expired")), a_run("first"), count=2)
