"""Calls of tools that write, by their keys: a repeated one gets the first one's result, while this process lives."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from signalbox.v1 import tools_pb2

from services.kit.tools.effects import KeyReused
from services.kit.wire.tasks import detached

# What is remembered, results and all; the oldest go first.
MOST_CALLS: Final = 10_000
MOST_BYTES: Final = 64 * 1024**2
_Key = tuple[str, str]


class _Call(NamedTuple):
    fingerprint: str
    result: asyncio.Task[tools_pb2.CallToolResponse]


class Repeats:
    """What became of calls. One that the executor itself could not make is forgotten, and may be made again."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._calls: OrderedDict[_Key, _Call] = OrderedDict()
        # Of those that have ended.
        self._sizes: OrderedDict[_Key, int] = OrderedDict()

    async def once(
        self, key: _Key, fingerprint: str, work: Callable[[], Awaitable[tools_pb2.CallToolResponse]]
    ) -> tools_pb2.CallToolResponse:
        """Returns what comes of a call, or came of the one with its key. Raises KeyReused, and what the call raises."""
        known = self._calls.get(key)
        if known is not None and known.fingerprint != fingerprint:
            raise KeyReused("this key was used for another call", metadata={"tool_call_id": key[1]})
        if known is None:
            known = self._calls[key] = _Call(fingerprint, detached(self._made(key, work)))
        # Whoever asked may go away; what it asked for goes on, and is told whoever asks again.
        return await asyncio.shield(known.result)

    async def _made(
        self, key: _Key, work: Callable[[], Awaitable[tools_pb2.CallToolResponse]]
    ) -> tools_pb2.CallToolResponse:
        try:
            response = await work()
        except BaseException:
            del self._calls[key]
            raise
        self._sizes[key] = response.ByteSize()
        while len(self._sizes) > MOST_CALLS or sum(self._sizes.values()) > self._most_bytes:
            oldest, _ = self._sizes.popitem(last=False)
            del self._calls[oldest]
        return response
