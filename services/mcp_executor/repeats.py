"""Calls of tools that write, by their keys: a repeated one gets the first one's result, while this process lives."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from signalbox.v1 import tools_pb2

from services.kit.tools.effects import KeyReused
from services.kit.wire.tasks import detached

CALLS_REMEMBERED: Final = 10_000


class Repeats:
    """What became of calls. One that the executor itself could not make is forgotten, and may be made again."""

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, str], tuple[str, asyncio.Task[tools_pb2.CallToolResponse]]] = OrderedDict()

    async def once(
        self, key: tuple[str, str], fingerprint: str, work: Callable[[], Awaitable[tools_pb2.CallToolResponse]]
    ) -> tools_pb2.CallToolResponse:
        """Returns what comes of a call, or came of the one with its key. Raises KeyReused, and what the call raises."""
        known = self._calls.get(key)
        if known is not None and known[0] != fingerprint:
            raise KeyReused("this key was used for another call", metadata={"tool_call_id": key[1]})
        if known is None:
            known = self._calls[key] = (fingerprint, detached(_run(work)))
            if len(self._calls) > CALLS_REMEMBERED:
                self._calls.popitem(last=False)
        try:
            # Whoever asked may go away; what it asked for goes on, and is told whoever asks again.
            return await asyncio.shield(known[1])
        finally:
            task = known[1]
            failed = task.done() and (task.cancelled() or task.exception() is not None)
            if failed and self._calls.get(key) is known:
                del self._calls[key]


async def _run(work: Callable[[], Awaitable[tools_pb2.CallToolResponse]]) -> tools_pb2.CallToolResponse:
    return await work()
