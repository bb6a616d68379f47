"""Agents as tools of MCP by streamable HTTP, for the caller whose token a request has (ADR 86).

No session is kept: the id of one names calls, and any replica takes the next request. In MCP of 2026 a call is one
request, and a client that hangs up has given it up. Before, hanging up means nothing: a call is cancelled by a message,
whichever replica that gets to, and gone on with behind the last event of its stream, likewise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid4, uuid5

import grpc
import orjson
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind
from signalbox.v1 import agents_pb2, runs_pb2
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from services.http_api.errors import ApiError, Invalid, NotAllowed, TokenRefused, WrongMethod
from services.http_api.event_stream import HEARTBEAT, CutOff, Part, StreamedAnswer, Streams
from services.http_api.forks import cancel
from services.http_api.gateway import Caller, Gateway, token_of
from services.http_api.json_bodies import BodyReader, Json
from services.http_api.mcp_exchange import LAST_EVENT_ID, OPERATION, SESSION_ID, Cursor, Exchange
from services.http_api.metrics import REQUESTS, STREAMS_ENDED, STREAMS_RESUMED
from services.http_api.settings import HttpApiSettings
from services.kit.agent_tools.callers import Context, Metadata
from services.kit.agent_tools.telling import progress
from services.kit.agent_tools.tools import FOLLOW, AgentTools
from services.kit.identity.bearer import bearer_metadata
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.tracing import tracer
from services.kit.wire.tasks import detached

log = get_logger()
PATH: Final = "/mcp"
# The label by which the run of a call is found where its session is named.
CALL_LABEL: Final = "mcp_call"
_CANCELLED: Final = "notifications/cancelled"
EXCHANGE: Final = "signalbox.mcp_exchange"
_METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


class McpEndpoint:
    """The address; an ASGI application for as long as `running`."""

    def __init__(
        self, gateway: Gateway, channel: grpc.aio.Channel, settings: HttpApiSettings, streams: Streams
    ) -> None:
        self._gateway = gateway
        self._settings = settings
        self._streams = streams
        # Calls that a message may cancel, by whose they are and their ids.
        self._held: dict[tuple[str, str], Exchange] = {}
        self._bodies = BodyReader(max_bytes=settings.max_request_bytes, timeout_s=settings.read_timeout_s)
        self._tools = AgentTools(
            channel, _HttpCallers(streams), call_timeout_s=settings.call_timeout_s, recovery_s=settings.recovery_s
        )
        self._manager = StreamableHTTPSessionManager(
            self._tools.server(), stateless=True, max_request_body_size=2 * settings.max_request_bytes
        )
        self._address = address = urlsplit(settings.mcp_url)
        self._own_origin = f"{address.scheme}://{address.netloc}"
        self._metadata_url = (
            f"{self._own_origin}{_METADATA_PATH}{address.path}" if settings.mcp_authorization_servers else ""
        )
        from_zero(REQUESTS, [OPERATION], ["200"])

    def routes(self) -> list[Route]:
        """Returns its routes."""
        # The last is where it is announced: a proxy takes a prefix off `/mcp`, and not out of the middle of this.
        paths = dict.fromkeys((_METADATA_PATH, f"{_METADATA_PATH}{PATH}", f"{_METADATA_PATH}{self._address.path}"))
        described = paths if self._metadata_url else {}
        return [Route(PATH, self), *(Route(path, self._described, methods=["GET"]) for path in described)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves inside the context."""
        ready, over = asyncio.Event(), asyncio.Event()

        async def manage() -> None:  # by one task, as the library wants it
            async with self._manager.run():
                ready.set()
                await over.wait()

        managing = detached(manage())
        await ready.wait()
        try:
            yield
        finally:
            over.set()
            await managing
            await self._tools.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        request = Request(scope, receive)
        of_caller = trace.get_current_span(propagate.extract(request.headers)).get_span_context()
        links = [Link(of_caller)] if of_caller.is_valid else []
        exchange = Exchange(request, send, send_timeout_s=self._settings.send_timeout_s)
        with tracer().start_as_current_span(f"{request.method} {PATH}", kind=SpanKind.SERVER, links=links):
            try:
                response = await self._answered(request, exchange)
            except ApiError as error:
                log.info("request refused", operation=OPERATION, status=error.status, reason=error.told_reason)
                response = self._problem(error)
            except ClientDisconnect:
                return
            if response is not None:
                await response(scope, receive, exchange.send)

    async def _answered(self, request: Request, exchange: Exchange) -> Response | None:
        """Returns an answer, or None where the library has sent one. Raises ApiError."""
        self._check_origin(request)
        if request.method == "GET" and LAST_EVENT_ID in request.headers:
            return await self._resumed(request)
        if request.method != "POST":
            raise WrongMethod("send messages of MCP by POST; there are no others of this server's to listen to")
        caller = self._gateway.caller(request)
        # Whether the token is good, the gateway says; clients look for it in the status alone.
        await caller.call(caller.stubs.agents.ListAgents, agents_pb2.ListAgentsRequest(name=OPERATION))
        document = await self._bodies.read(request)
        self._streams.check()
        message = document if isinstance(document, dict) else {}
        _check_id(message)
        if message.get("method") == _CANCELLED and SESSION_ID in request.headers:
            await self._cancel(caller, request.headers[SESSION_ID], message.get("params"))
            return Response(status_code=202)
        if message.get("method") == "initialize":
            exchange.session_id = uuid4().hex
        with self._holding(caller, request, message, exchange):
            await self._served(request, orjson.dumps(document), exchange)
        return None

    @contextmanager
    def _holding(
        self, caller: Caller, request: Request, message: Mapping[str, Any], exchange: Exchange
    ) -> Iterator[None]:
        session, given = request.headers.get(SESSION_ID), message.get("params")
        # Who follows a run gives up to follow it, and no more.
        if session is None or "id" not in message or (isinstance(given, dict) and given.get("name") == FOLLOW):
            yield
            return
        call = caller.subject, _call_id(session, message["id"])
        self._held[call] = exchange
        try:
            yield
        finally:
            exchange.left()
            if self._held.get(call) is exchange:
                del self._held[call]

    async def _served(self, request: Request, body: bytes, exchange: Exchange) -> None:
        before: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        read = request.receive

        async def receive() -> Message:
            return before.pop() if before else await read()

        request.scope[EXCHANGE] = exchange
        serving = asyncio.ensure_future(self._manager.handle_request(request.scope, receive, exchange.send))
        closing = asyncio.ensure_future(self._streams.closing.wait())
        self._streams.entered(1)
        try:
            await asyncio.wait((serving, closing), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                # Without an end of its body: clients know it for cut, and go on elsewhere.
                exchange.end = "closing"
        finally:
            for each in (serving, closing):
                each.cancel()
            await asyncio.gather(serving, closing, return_exceptions=True)
            self._streams.entered(-1)
            STREAMS_ENDED.labels(exchange.end).inc()
        if not serving.cancelled() and (error := serving.exception()) and exchange.end not in ("closing", "slow"):
            raise error

    async def _cancel(self, caller: Caller, session: str, given: Any) -> None:
        """Cancels the run of a call: of one that is held here whichever it has, else the one that it began.

        Raises ApiError.
        """
        call = _call_id(session, given.get("requestId") if isinstance(given, dict) else None)
        held = self._held.get((caller.subject, call))
        # It may still be on its way to its run.
        if held is not None and (run_id := await asyncio.shield(held.run_id)):
            await cancel(caller, run_id)
            return
        asked = runs_pb2.ListRunsRequest(labels={CALL_LABEL: call}, page_size=1)
        for run in (await caller.call(caller.stubs.runs.ListRuns, asked)).runs:
            await cancel(caller, run.run_id)

    async def _resumed(self, request: Request) -> Response:
        """Returns the stream of a call behind the event that its client had last. Raises ApiError."""
        cursor = Cursor.read(request.headers[LAST_EVENT_ID])
        caller = self._gateway.caller(request)
        await caller.call(caller.stubs.runs.GetRun, runs_pb2.GetRunRequest(run_id=cursor.run_id))
        self._streams.check()
        STREAMS_RESUMED.inc()
        headers = {"content-type": "text/event-stream"}
        return StreamedAnswer(
            self._streams, self._behind(cursor, _metadata(request)), headers=headers, heartbeat=HEARTBEAT
        )

    async def _behind(self, cursor: Cursor, metadata: Metadata) -> AsyncGenerator[bytes, None]:
        try:
            async for event in self._tools.events(cursor.run_id, cursor.sequence, metadata):
                told = progress(event)
                if told and cursor.progress_token is not None:
                    parameters = {"progressToken": cursor.progress_token, "progress": event.sequence, "message": told}
                    here = Cursor(cursor.run_id, event.sequence, cursor.request_id, cursor.progress_token)
                    said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": parameters}
                    yield Part("message", said, here.encoded()).encoded()
            result = await self._tools.result(cursor.run_id, metadata)
        except grpc.aio.AioRpcError as error:
            raise CutOff from error
        answer = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        yield Part("message", {"jsonrpc": "2.0", "id": cursor.request_id, "result": answer}).encoded()

    def _check_origin(self, request: Request) -> None:
        """Refuses pages of other sites, also those for which this server's address was put in place of theirs."""
        origin = request.headers.get("origin")
        if origin is not None and origin not in (self._own_origin, *self._settings.allowed_origins):
            raise NotAllowed(f"pages of {origin[:200]!r} may not call this server; see SIGNALBOX_ALLOWED_ORIGINS")

    def _problem(self, error: ApiError) -> Response:
        headers = error.headers()
        if isinstance(error, TokenRefused):
            missing = error.told_reason == TokenRefused.reason
            parts = [
                *([] if missing else ['error="invalid_token"']),
                *([f'resource_metadata="{self._metadata_url}"'] if self._metadata_url else []),
            ]
            headers["www-authenticate"] = f"Bearer {', '.join(parts)}".strip()
        return Response(orjson.dumps(error.body()), error.status, headers, "application/problem+json")

    async def _described(self, _request: Request) -> Response:
        """Says whose tokens are taken (RFC 9728)."""
        return Json(
            {
                "resource": self._settings.mcp_url,
                "resource_name": "signalbox",
                "authorization_servers": list(self._settings.mcp_authorization_servers),
                "bearer_methods_supported": ["header"],
            }
        )


class _HttpCallers:
    """Each request's caller, by its token."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def metadata(self, context: Context) -> Metadata:
        return _metadata(_request(context))

    def request(self, context: Context) -> tuple[str, Mapping[str, str]]:
        session = _request(context).headers.get(SESSION_ID)
        if session is None:
            return "", {}
        call = _call_id(session, context.request_id)
        return call, {CALL_LABEL: call}

    async def began(self, context: Context, run_id: str, sequence: int) -> None:
        token = (context.meta or {}).get("progress_token")
        exchange: Exchange = _request(context).scope[EXCHANGE]
        await exchange.came_to(Cursor(run_id, sequence, context.request_id or "", token))

    def cancels(self, context: Context) -> bool:
        return context.protocol_version in MODERN_PROTOCOL_VERSIONS and not self._streams.closing.is_set()


def _request(context: Context) -> Request:
    if context.request is None:
        raise RuntimeError("a call that came by no request")
    request: Request = context.request
    return request


def _metadata(request: Request) -> Metadata:
    return (bearer_metadata(token_of(request)),)


def _check_id(message: Mapping[str, Any]) -> None:
    """Raises Invalid for a request that the library would take for a notification, and pass over."""
    given = message.get("id", "")
    if "method" in message and (isinstance(given, bool) or not isinstance(given, (str, int))):
        raise Invalid("id: is to be a text or a whole number; leave it out of a notification")


def _call_id(session: str, request_id: Any) -> str:
    return str(uuid5(NAMESPACE_URL, f"{session}\n{orjson.dumps(request_id).decode()}"))
