"""Answers that come in parts, for as long as their reader reads.

A reader that takes nothing is held back by its connection, and with it what it is told of; after a while its connection
ends. One that hears nothing is told that the server is there. A stream that can't be told to its end, since the gateway
or this replica goes, ends without the end of its body: clients know it for cut, and go on elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.http_api.errors import Busy
from services.http_api.metrics import OPEN_STREAMS, STREAMS_ENDED
from services.kit.telemetry.logs import get_logger

log = get_logger()

HEARTBEAT = b": heartbeat\n\n"
# JSON may begin with white space, so that a wait, too, can say that it is there.
WAIT_HEARTBEAT = b"\n"


@dataclass(frozen=True)
class Part:
    """An event of a stream. Behind one with an id, a reader can go on."""

    event: str
    data: Any
    id: str = ""

    def encoded(self) -> bytes:
        """Returns it as a server-sent event; no name of a node can make another of it."""
        named = "".join(letter if letter.isprintable() else "?" for letter in self.event)
        identified = f"id: {self.id}\n" if self.id else ""
        return b"".join((f"{identified}event: {named}\ndata: ".encode(), orjson.dumps(self.data), b"\n\n"))


class CutOff(Exception):
    """What is told can't be told to its end here; its reader is to go on elsewhere."""


class Streams:
    """The streams of this replica: how many there may be, and how each is sent."""

    def __init__(self, *, most: int, heartbeat_s: float, send_timeout_s: float) -> None:
        self.closing = asyncio.Event()
        self._most = most
        self._open = 0
        self.heartbeat_s = heartbeat_s
        self.send_timeout_s = send_timeout_s

    def check(self) -> None:
        """Raises Busy while there are as many as there may be."""
        if self._open >= self._most:
            raise Busy(f"this replica has {self._most} streams open; try again", retry_after_s=1)

    def entered(self, change: int) -> None:
        """Notes that a stream has begun or ended."""
        self._open += change
        OPEN_STREAMS.set(self._open)


class StreamedAnswer(Response):
    """An answer in parts. `left` is called when its reader goes away before its end."""

    def __init__(
        self,
        streams: Streams,
        parts: AsyncGenerator[bytes, None],
        *,
        headers: dict[str, str],
        heartbeat: bytes,
        left: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.body_iterator = parts
        self._streams = streams
        self._parts = parts
        self._heartbeat = heartbeat
        self._left = left
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no", **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Sends it."""
        self._streams.entered(1)
        end = "cut"
        try:
            end = await self._sent(receive, send)
        finally:
            STREAMS_ENDED.labels(end).inc()
            self._streams.entered(-1)
        if end in ("left", "slow") and self._left is not None:
            await self._left()

    async def _sent(self, receive: Receive, send: Send) -> str:
        gone = asyncio.ensure_future(_disconnected(receive))
        closing = asyncio.ensure_future(self._streams.closing.wait())
        following: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(self._parts, None))
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while True:
                await asyncio.wait(
                    (following, gone, closing),
                    timeout=self._streams.heartbeat_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if gone.done():
                    return "left"
                if not following.done():
                    if closing.done():
                        return "closing"
                    await self._send(send, _body(self._heartbeat))
                    continue
                part = following.result()
                if part is None:
                    await self._send(send, _body(b"", more=False))
                    return "whole"
                await self._send(send, _body(part))
                following = asyncio.ensure_future(anext(self._parts, None))
        except CutOff:
            return "cut"
        except TimeoutError:
            return "slow"
        except Exception:
            log.exception("stream failed")
            return "cut"
        finally:
            for each in (following, gone, closing):
                each.cancel()
            await asyncio.gather(following, gone, closing, return_exceptions=True)
            await self._parts.aclose()

    async def _send(self, send: Send, message: dict[str, Any]) -> None:
        async with asyncio.timeout(self._streams.send_timeout_s):
            await send(message)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(content: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


def event_stream(
    streams: Streams,
    parts: AsyncGenerator[Part, None],
    *,
    headers: dict[str, str],
    left: Callable[[], Awaitable[None]] | None = None,
) -> StreamedAnswer:
    """Returns events as they come."""

    async def encoded() -> AsyncGenerator[bytes, None]:
        async with aclosing(parts):
            async for part in parts:
                yield part.encoded()

    told = {**headers, "content-type": "text/event-stream; charset=utf-8"}
    return StreamedAnswer(streams, encoded(), headers=told, heartbeat=HEARTBEAT, left=left)


def awaited_json(
    streams: Streams,
    document: Awaitable[Any],
    *,
    headers: dict[str, str],
    left: Callable[[], Awaitable[None]] | None = None,
) -> StreamedAnswer:
    """Returns JSON once it is there."""

    async def encoded() -> AsyncGenerator[bytes, None]:
        yield orjson.dumps(await document)

    told = {**headers, "content-type": "application/json"}
    return StreamedAnswer(streams, encoded(), headers=told, heartbeat=WAIT_HEARTBEAT, left=left)
