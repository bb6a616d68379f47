"""HTTP as MCP's client library is given it: answers bounded, refusals with their status, which the library drops."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT

# Of JSON-RPC's range for servers; stands for an answer whose HTTP status says more than its body.
HTTP_REFUSED: Final = -32099
HTTP_STATUS: Final = "http_status"
IN_SESSION: Final = "in_session"
# Likewise, in the place of an answer that was not read to its end.
TOO_LARGE: Final = -32098
# By which the library and this module say what became of a request; a server that says one of them means its own.
_OF_CLIENTS: Final = frozenset((CONNECTION_CLOSED, REQUEST_TIMEOUT, PARSE_ERROR, HTTP_REFUSED, TOO_LARGE))
_MAYBE_OF_CLIENTS: Final = re.compile(rb'"code"\s*:\s*-32[07][09]\d')
# The largest messages that a stream of events may hold with its answer, and the most.
EVENTS_MESSAGES: Final = 4
MOST_EVENTS: Final = 10_000
# Statuses that say more than any body: of the token, of the server, and of what stands before it.
_BY_STATUS: Final = frozenset((401, 403, 408, 425, 429, 502, 503, 504))
# What servers say to a request whose session they know no more, where they don't say 404.
_OF_SESSIONS: Final = frozenset((INVALID_REQUEST, *range(-32099, -31999)))
_SESSION_ID: Final = "mcp-session-id"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
# Half a pair of surrogates, as programs leave that cut a text in the middle of a character; no reader of JSON takes it.
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_END_OF_EVENT: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")


class AnswerTooLarge(httpx2.StreamError):
    """A server's message is larger than any may be."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests; raises AnswerTooLarge while a body that is too large is read."""

    def __init__(self, most_bytes: int, *, ca: Path | None = None) -> None:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
        # Neither proxies nor credentials of the environment: what goes to a server is what is configured for it.
        self._sending = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
        self._most_bytes = most_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Returns the answer."""
        # What is bounded is what is read.
        request.headers["accept-encoding"] = "identity"
        response = await self._sending.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            told = {"error": {"code": HTTP_REFUSED, "message": "its answer is compressed, which was not asked for"}}
            return httpx2.Response(502, json=told, request=request)
        # Who reads events bounds each of them.
        most = self._most_bytes * (EVENTS_MESSAGES if _is(response, _EVENTS) else 1)
        response.stream = _Bounded(response.stream, most)
        return response

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._sending.aclose()


class McpTransport(BoundedTransport):
    """Answers of MCP servers: what is none of JSON-RPC becomes a refusal of JSON-RPC that has its status.

    So does an answer that is too large.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Returns the answer."""
        if request.method == "GET" and "last-event-id" not in request.headers:
            # For what a server says unasked: nobody listens, and no storm of it costs anything.
            return httpx2.Response(405, request=request)
        response = await super().handle_async_request(request)
        status, asked = response.status_code, _asked(request)
        if status < 400 and asked is None:
            return response
        if status == 200 and (_is(response, _JSON) or _is(response, _EVENTS)):
            if asked is not None:
                bounded = _BoundedEvents if _is(response, _EVENTS) else _BoundedJson
                response.stream = bounded(response.stream, self._most_bytes, too_large(asked, self._most_bytes))
            return response
        try:
            body = await response.aread()
        except AnswerTooLarge:
            body = b""
        finally:
            await response.aclose()
        error = _error_of(body)
        in_session = _SESSION_ID in request.headers
        says_lost = status == 404 or (status == 400 and (not error or error["code"] in _OF_SESSIONS))
        if error and status >= 400 and status not in _BY_STATUS and not (in_session and says_lost):
            body = readable(body)
        else:
            # What is no refusal is no answer either.
            said = error.get("message") or f"HTTP status {status}, and no answer of MCP"
            status = max(status, 502) if status < 400 else status
            data = {HTTP_STATUS: status, IN_SESSION: in_session}
            refused = {"code": HTTP_REFUSED, "message": str(said), "data": data}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": refused}).encode()
        return httpx2.Response(status, headers={"content-type": _JSON}, content=body, request=request)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for part in self._stream:
            seen += len(part)
            if seen > self._most_bytes:
                raise AnswerTooLarge(f"the answer is larger than {self._most_bytes:,} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedJson(_Bounded):
    """A message, or in its place what is said of one that is too large."""

    def __init__(self, stream: Any, most_bytes: int, instead: bytes) -> None:
        super().__init__(stream, most_bytes)
        self._instead = instead

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            body = b"".join([part async for part in self._stream])
        except AnswerTooLarge:
            body = self._instead
        yield readable(body)


class _BoundedEvents(_BoundedJson):
    """Whole events, up to where one or all of them are too large, and what is said of that."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._events():
                yield _readable_event(event)
        except AnswerTooLarge:
            yield b"event: message\ndata: " + self._instead + b"\n\n"

    async def _events(self) -> AsyncIterator[bytes]:
        pending, told = bytearray(), 0
        async for part in self._stream:
            start = max(0, len(pending) - 3)  # an end may be in two parts
            pending += part
            while (found := _END_OF_EVENT.search(pending, start)) and found.end() <= self._most_bytes:
                event, start = bytes(pending[: found.end()]), 0
                del pending[: len(event)]
                told += b"data:" in event
                yield event
            if len(pending) > self._most_bytes or told > MOST_EVENTS:
                raise AnswerTooLarge("an event is larger than may be, or there are more of them")
        yield bytes(pending)


def readable(message: bytes) -> bytes:
    """Returns a message as the library is to read it.

    A replacement character stands for each half of a pair of surrogates, and no error has a code of the client's own.
    """
    if _HALF.search(message):
        message = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], message)
    if _MAYBE_OF_CLIENTS.search(message) and (error := _error_of(message)).get("code") in _OF_CLIENTS:
        message = json.dumps({**json.loads(message), "error": {**error, "code": INTERNAL_ERROR}}).encode()
    return message


def _readable_event(event: bytes) -> bytes:
    if not _HALF.search(event) and not _MAYBE_OF_CLIENTS.search(event):
        return event
    lines = event.splitlines()
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    others = [line for line in lines if line and not line.startswith(b"data:")]
    return b"\n".join([*others, *(b"data: " + line for line in readable(data).splitlines()), b"", b""])


def too_large(request_id: Any, most_bytes: int) -> bytes:
    """Returns what is answered in the place of an answer that is larger than any may be."""
    error = {"code": TOO_LARGE, "message": f"the answer is larger than {most_bytes:,} bytes"}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()


def _is(response: httpx2.Response, kind: str) -> bool:
    return response.headers.get("content-type", "").lower().startswith(kind)


def _asked(request: httpx2.Request) -> Any:
    """Returns the id of a request of JSON-RPC; None for a notification, and what is none."""
    try:
        said = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return said.get("id") if isinstance(said, dict) and "method" in said else None


def _error_of(body: bytes) -> dict[str, Any]:
    """Returns the error of JSON-RPC that a message is; empty where it is none."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("code"), int) else {}
