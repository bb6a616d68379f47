"""What a stream does with readers that are slow, gone or idle, and with a server that goes, and what it tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from signalbox.v1 import runs_pb2

from services.http_api.errors import Busy, Invalid
from services.http_api.event_stream import HEARTBEAT, CutOff, Part, Streams, event_stream
from services.http_api.interrupts import answer_of, interrupts_of
from services.http_api.reader import MOST_TASKS, Position, position_of
from services.http_api.run_steps import changed
from services.http_api.told_messages import messages_in

SCOPE: dict[str, Any] = {"type": "http"}


class Reader:
    """The other end of a connection: what it was sent, and what it does."""

    def __init__(self, *, takes: bool = True, waits_for: bytes = b"\n\n") -> None:
        self.sent: list[dict[str, Any]] = []
        self.left = asyncio.Event()
        self.heard = asyncio.Event()
        self._waits_for = waits_for
        self._takes = takes

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body" and not self._takes:
            await asyncio.Event().wait()
        self.sent.append(message)
        if self._waits_for in self.body:
            self.heard.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_whole(self) -> bool:
        """Whether it knows that it has heard all."""
        return self.sent[-1].get("more_body") is False


def streams(**changes: Any) -> Streams:
    return Streams(**{"most": 2, "heartbeat_s": 10.0, "send_timeout_s": 10.0, **changes})


async def told(of: Streams, parts: AsyncGenerator[Part, None], reader: Reader, cancelled: list[str]) -> None:
    async def left() -> None:
        cancelled.append("run")

    await event_stream(of, parts, headers={}, left=left)(SCOPE, reader.receive, reader.send)


async def some(*parts: Part) -> AsyncGenerator[Part, None]:
    for part in parts:
        yield part


async def endless(gate: asyncio.Event) -> AsyncGenerator[Part, None]:
    yield Part("values", {}, "1.0")
    await gate.wait()
    yield Part("end", None)


async def test_a_stream_is_told_to_its_end() -> None:
    reader, cancelled = Reader(), list[str]()
    await told(streams(), some(Part("values", {"a": 1}, "3.1"), Part("end", None)), reader, cancelled)
    assert reader.body == b'id: 3.1\nevent: values\ndata: {"a":1}\n\nevent: end\ndata: null\n\n'
    assert (reader.is_whole, cancelled) == (True, [])


async def test_an_idle_stream_says_that_it_is_there() -> None:
    reader, gate = Reader(waits_for=HEARTBEAT * 3), asyncio.Event()
    telling = asyncio.ensure_future(told(streams(heartbeat_s=0.01), endless(gate), reader, []))
    async with asyncio.timeout(30):
        await reader.heard.wait()
    gate.set()
    await telling
    assert reader.is_whole


async def test_who_leaves_is_told_no_more_and_the_run_may_be_cancelled() -> None:
    reader, cancelled = Reader(), list[str]()
    reader.left.set()
    of = streams()
    await told(of, endless(asyncio.Event()), reader, cancelled)
    assert cancelled == ["run"]
    of.check()  # nobody is counted any more


async def test_who_takes_nothing_is_let_go() -> None:
    reader, cancelled = Reader(takes=False), list[str]()
    await told(streams(send_timeout_s=0.01), endless(asyncio.Event()), reader, cancelled)
    assert cancelled == ["run"]


@pytest.mark.parametrize("why", ["the server goes", "no gateway answers"])
async def test_what_can_not_be_told_to_its_end_is_broken_off(why: str) -> None:
    reader, cancelled, of = Reader(), list[str](), streams()

    async def cut() -> AsyncGenerator[Part, None]:
        yield Part("values", {}, "1.0")
        raise CutOff("no gateway answers")

    if why == "the server goes":
        of.closing.set()
        await told(of, endless(asyncio.Event()), reader, cancelled)
    else:
        await told(of, cut(), reader, cancelled)
    # Clients take a whole body for the run's end; and the run is not to be cancelled for it.
    assert (reader.is_whole, cancelled) == (False, [])


async def test_there_are_so_many_streams_at_most() -> None:
    of, gate = streams(most=1), asyncio.Event()
    reader = Reader()
    telling = asyncio.ensure_future(told(of, endless(gate), reader, []))
    async with asyncio.timeout(30):
        await reader.heard.wait()
    with pytest.raises(Busy):
        of.check()
    gate.set()
    await telling
    of.check()


def test_no_name_makes_another_event() -> None:
    told = Part("messages|a\ndata: forged\n\nevent: end", "x\n\ny").encoded()
    assert told.count(b"\n\n") == 1
    assert told.splitlines()[0] == b"event: messages|a?data: forged??event: end"


def test_a_place_in_a_stream_is_told_and_read_back() -> None:
    assert position_of(Position(12, -1).id) == Position(12, -1)
    assert position_of("-1") == position_of("") == Position()
    heard = Position(12, 3, {"deadbeef": 5}, {"0badcafe": 2})
    assert position_of(heard.id) == heard
    for ended in (1, 6, 1 << 255, 1 << 256, (1 << 700) + 5, (1 << MOST_TASKS) - 1):
        assert position_of(Position(12, 3, ended=ended, is_anew=True).id) == Position(12, 3, ended=ended, is_anew=True)
    assert position_of(Position(12, 3, ended=1 << MOST_TASKS).id) == Position(12, 3)
    # In an upgrade a stream goes on at a replica that knows less.
    assert position_of("12.3+deadbeef:5~0badcafe:2*later:1!x+other~1:2:3") == heard
    for forged in ("12", "1.2.3", "x", "9" * 40 + ".1", "1.1\n", "1.1+", "1.1+deadbeef:5\n", "1.1 ", "1.1+ü"):
        with pytest.raises(Invalid):
            position_of(forged)


def test_changes_of_a_state_are_what_was_added_or_is_other() -> None:
    one, two = {"id": "1", "content": "a"}, {"id": "2", "content": "b"}
    before = {"messages": [one], "log": ["x"], "kept": 1, "gone": [1, 2]}
    after = {"messages": [one, two], "log": ["y"], "kept": 1, "gone": [1], "new": {"a": 1}}
    assert changed(before, after) == {"messages": [two], "log": ["y"], "gone": [1], "new": {"a": 1}}
    other = {**one, "content": "c"}
    assert changed({"messages": [one, two]}, {"messages": [other, two]}) == {"messages": [other]}
    said = {"type": "ai", "id": "3", "content": "c"}
    assert messages_in({"messages": [said, two], "log": ["y"], "last": said}) == [said, said]


def test_interrupts_are_answered_by_their_ids_or_alone() -> None:
    asked = runs_pb2.InputRequest(input_request_id="q")
    for name in ("a", "b"):
        asked.interrupts.add(interrupt_id=name).payload.string_value = f"What of {name}?"
    run = runs_pb2.Run(run_id="r", input_request=asked)
    assert [each["value"] for each in interrupts_of(asked)] == ["What of a?", "What of b?"]
    assert dict(answer_of(run, {"b": False}).answers.items())["b"].bool_value is False
    with pytest.raises(Invalid, match="2 things at once"):
        answer_of(run, "yes")
    del asked.interrupts[1]
    alone = runs_pb2.Run(run_id="r", input_request=asked)
    assert answer_of(alone, {"b": 1}).answers["a"].struct_value.fields["b"].number_value == 1
    words = runs_pb2.Run(run_id="r", input_request=runs_pb2.InputRequest(input_request_id="q", question="Go on?"))
    assert answer_of(words, "approve").answer == "approve"
    with pytest.raises(Invalid):
        answer_of(words, "x" * 4001)
