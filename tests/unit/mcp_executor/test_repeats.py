"""What is remembered of calls that write: each once, and no more of them than there is room for."""

from __future__ import annotations

import asyncio

import pytest
from signalbox.v1 import tools_pb2

from services.mcp_executor.repeats import Repeats


def saying(text: str) -> tools_pb2.CallToolResponse:
    """A result."""
    return tools_pb2.CallToolResponse(output=tools_pb2.ToolOutput(text=text))


async def test_results_are_remembered_as_long_as_there_is_room() -> None:
    made: list[str] = []

    async def call(repeats: Repeats, name: str) -> tools_pb2.CallToolResponse:
        async def work() -> tools_pb2.CallToolResponse:
            made.append(name)
            return saying("x" * 1000)

        return await repeats.once(("run", name), name, work)

    repeats = Repeats(most_bytes=2500)
    for name in ("a", "b", "a", "c", "b", "c", "a"):
        await call(repeats, name)
    assert made == ["a", "b", "c", "a"]


async def test_a_call_goes_on_for_who_asks_again_and_is_forgotten_where_it_fails() -> None:
    hold, made = asyncio.Event(), []

    async def work() -> tools_pb2.CallToolResponse:
        made.append(1)
        await hold.wait()
        if len(made) == 1:
            raise ConnectionError("away")
        return saying("done")

    repeats = Repeats()
    first = asyncio.create_task(repeats.once(("run", "a"), "a", work))
    await asyncio.sleep(0)
    first.cancel()
    again = asyncio.create_task(repeats.once(("run", "a"), "a", work))
    await asyncio.sleep(0)
    hold.set()
    with pytest.raises(ConnectionError):
        await again
    assert await repeats.once(("run", "a"), "a", work) == saying("done")
    assert await repeats.once(("run", "a"), "a", work) == saying("done")
    assert len(made) == 2
