"""A request of MCP and what is sent for it, with the ids of events behind which a client goes on at any replica."""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass
from typing import Final

import orjson
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Message, Send

from services.http_api.errors import Invalid
from services.http_api.metrics import REQUESTS

OPERATION: Final = "mcp"
SESSION_ID: Final = "mcp-session-id"
PROTOCOL_VERSION: Final = "mcp-protocol-version"
LAST_EVENT_ID: Final = "last-event-id"
# Clients of earlier versions can't read an event without a message.
_READS_EMPTY_EVENTS: Final = "2025-11-25"
_LONGEST_ID: Final = 1000


@dataclass(frozen=True)
class Cursor:
    """What a client goes on behind: a run, its event, the request that it answers, and what names its progress."""

    run_id: str
    sequence: int
    request_id: str | int
    progress_token: str | int | None

    def encoded(self) -> str:
        """Returns it as the id of an event."""
        fields = [self.run_id, self.sequence, self.request_id, self.progress_token]
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode()

    @classmethod
    def read(cls, given: str) -> Cursor:
        """Returns what an event's id says. Raises Invalid."""
        try:
            fields = orjson.loads(base64.b64decode(given[:_LONGEST_ID], altchars=b"-_", validate=True))
            run_id, sequence, request_id, token = fields
        except (ValueError, TypeError) as error:
            raise Invalid(f"{LAST_EVENT_ID}: is none of this endpoint's") from error
        kinds = (run_id, str), (sequence, int), (request_id, str | int), (token, str | int | None)
        if not all(isinstance(value, kind) for value, kind in kinds) or not 0 <= sequence < 2**63:
            raise Invalid(f"{LAST_EVENT_ID}: is none of this endpoint's")
        return cls(run_id, sequence, request_id, token)


class Exchange:
    """A request and what is sent for it: bounded, and with ids behind which a client of MCP before 2026 goes on."""

    def __init__(self, request: Request, send: Send, *, send_timeout_s: float) -> None:
        self._send = send
        self._send_timeout_s = send_timeout_s
        self._began = time.perf_counter()
        version = request.headers.get(PROTOCOL_VERSION, "")
        self._has_ids = version not in MODERN_PROTOCOL_VERSIONS
        self._tells_at_once = self._has_ids and version >= _READS_EMPTY_EVENTS
        self._is_stream = False
        self._has_begun = asyncio.Event()
        self._event_id = ""
        self.session_id = ""
        self.end = "left"
        # Of a call, once it has one; empty where it ends without.
        self.run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def send(self, message: Message) -> None:
        """Sends a part of the answer; raises TimeoutError where it is not taken."""
        if message["type"] == "http.response.start":
            self._is_stream = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            if self.session_id:
                message["headers"] = [*message["headers"], (SESSION_ID.encode(), self.session_id.encode())]
            REQUESTS.labels(OPERATION, str(message["status"])).observe(time.perf_counter() - self._began)
        body = message.get("body", b"")
        if self._event_id and self._is_stream and body.startswith(b"event: message"):
            message["body"] = f"id: {self._event_id}\r\n".encode() + body
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await self._send(message)
        except TimeoutError:
            self.end = "slow"
            raise
        if message["type"] == "http.response.start":
            self._has_begun.set()
        elif not message.get("more_body", False):
            self.end = "whole"

    async def came_to(self, cursor: Cursor) -> None:
        """Notes how far what is told has come; a client that can go on is told so before there is more to say."""
        self._has_run(cursor.run_id)
        event_id = cursor.encoded()
        if not self._has_ids or len(event_id) > _LONGEST_ID:
            return
        is_first, self._event_id = not self._event_id, event_id
        if is_first and self._tells_at_once:
            await self._has_begun.wait()
            if self._is_stream:
                body = f"id: {event_id}\r\nretry: 1000\r\ndata: \r\n\r\n".encode()
                await self.send({"type": "http.response.body", "body": body, "more_body": True})

    def left(self) -> None:
        """Notes that nothing more is sent."""
        self._has_run("")

    def _has_run(self, run_id: str) -> None:
        if not self.run_id.done():
            self.run_id.set_result(run_id)
