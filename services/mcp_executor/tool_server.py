"""One configured MCP server: its connections, what its tools were accepted as, and calls of them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx2
import mcp.types as mcp_types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import exemplar, from_zero
from services.kit.tools.executor import ToolRefused
from services.kit.wire.tasks import detached
from services.mcp_executor.accepted import Definition
from services.mcp_executor.connection import AccessRefused, Connection, Listed, NoAnswer, NotHeard, SessionRefused
from services.mcp_executor.errors import AnswerNotRead, CallFailed, OutcomeUnknown, ServerAway, ServerBusy, ToolChanged
from services.mcp_executor.exchange import CallersTokens
from services.mcp_executor.http_answers import BoundedTransport, McpTransport
from services.mcp_executor.listings import with_sound_tools
from services.mcp_executor.metrics import CALL_DURATION, CALL_OUTCOMES, CALLS, TOOL_STATES, TOOLS
from services.mcp_executor.outage import Outage
from services.mcp_executor.program import program
from services.mcp_executor.schemas import TOO_MUCH, ResultChecks
from services.mcp_executor.servers import McpServer
from services.mcp_executor.settings import McpExecutorSettings

log = get_logger()
# Of callers with tokens of their own; the one that was used longest ago is closed.
MOST_CONNECTIONS: Final = 100
_ATTEMPTS: Final = 2
_T = TypeVar("_T")


@dataclass(frozen=True)
class OnBehalf:
    """For whom a server is called, and the run's token, which may be exchanged for theirs."""

    caller: Caller
    run_token: str = field(repr=False)


@dataclass
class _Open:
    """A connection, what it said of the server's tools, and how many calls it carries."""

    token: str = field(repr=False)
    connection: Connection
    listed: Listed = field(default_factory=lambda: Listed({}, {}))
    known_until: float = 0.0
    calls: int = 0
    is_retired: bool = False


@dataclass
class _Attempt:
    """The connection that a call is made on, and whether the server has been asked to do what is wanted."""

    opened: _Open | None = None
    asked: bool = False


class ToolServer:
    """A server, over as many connections as there are tokens for it."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        accepted: Mapping[str, Definition],
        settings: McpExecutorSettings,
        checks: ResultChecks,
    ) -> None:
        self.name = name
        self._server = server
        self._accepted = accepted
        self._settings = settings
        # By the token that they are made with.
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._outage = Outage(name)
        self._checks = checks
        # Other servers' results are not to wait for all of this one's.
        self._checking = asyncio.Lock()
        self._call_timeout_s = server.call_timeout_s or settings.mcp_call_timeout_s
        self._calls_at_once = server.calls_at_once or settings.mcp_calls_at_once
        self.most_chars = server.result_chars or settings.mcp_result_chars
        self._issuer = self._http(BoundedTransport) if server.token_exchange else None
        self._callers = (
            CallersTokens(name, server.token_exchange, self._issuer) if server.token_exchange and self._issuer else None
        )
        from_zero(TOOLS, [name], TOOL_STATES)
        from_zero(CALLS, [name], CALL_OUTCOMES)
        from_zero(CALL_DURATION, [name])

    async def listed(self) -> Listed:
        """Returns what the server says of its tools now, by the executor's own token. Raises ServerAway."""
        try:
            async with self._using(self._own_token()) as opened:
                return await opened.connection.tools()
        except (AccessRefused, NoAnswer) as error:
            raise ServerAway(self.name, f"the MCP server {self.name} can't be asked for its tools: {error}") from error

    async def call(
        self, tool: str, arguments: dict[str, Any], on_behalf: OnBehalf, *, repeatable: bool
    ) -> mcp_types.CallToolResult:
        """Calls a tool; again, on another connection, where it was not heard or may be repeated.

        Raises ToolRefused, ServerAway, ServerBusy.
        """
        if self._under_way >= self._calls_at_once:
            CALLS.labels(self.name, "busy").inc()
            raise ServerBusy(self.name, f"{self._under_way} calls of the MCP server {self.name} are under way already")
        self._under_way += 1
        began, outcome = time.perf_counter(), "away"
        try:
            self._outage.check()
            result = await self._call(tool, arguments, on_behalf, repeatable=repeatable)
            await self._check_result(tool, result, within_s=self._call_timeout_s - (time.perf_counter() - began))
            outcome = "refused" if result.is_error else "ok"
        except OutcomeUnknown:
            outcome = "unknown"
            raise
        except ToolRefused:
            outcome = "refused"
            raise
        finally:
            self._under_way -= 1
            CALLS.labels(self.name, outcome).inc()
            CALL_DURATION.labels(self.name).observe(time.perf_counter() - began, exemplar())
        return result

    async def aclose(self) -> None:
        """Closes all connections; calls under way end without an answer."""
        for opened in list(self._open.values()):
            opened.calls = 0
            self._retire(opened)
        if self._closing:
            await asyncio.wait(self._closing)
        if self._issuer is not None:
            await self._issuer.aclose()

    async def _call(
        self, tool: str, arguments: dict[str, Any], on_behalf: OnBehalf, *, repeatable: bool
    ) -> mcp_types.CallToolResult:
        attempt = _Attempt()
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await self._tried(attempt, tool, arguments, on_behalf, repeatable=repeatable)
        except TimeoutError as error:
            if attempt.opened:  # what hangs may do so for ever
                self._retire(attempt.opened)
            self._outage.failed("no result in time" if attempt.asked else "no connection in time")
            if attempt.asked and not repeatable:
                raise OutcomeUnknown(self.name) from error
            limit = f"{self._call_timeout_s:g} s"
            told = f"the MCP server {self.name} does not answer: no result within {limit}"
            raise ServerAway(self.name, told) from error

    async def _tried(
        self, attempt: _Attempt, tool: str, arguments: dict[str, Any], on_behalf: OnBehalf, *, repeatable: bool
    ) -> mcp_types.CallToolResult:
        failure: Exception = NotHeard()
        for _ in range(_ATTEMPTS):
            attempt.asked = False
            try:
                async with self._using(await self._token(on_behalf)) as opened:
                    attempt.opened = opened
                    self._check(tool, await self._known(opened))
                    attempt.asked = True
                    return await self._answer(opened.connection.call(tool, arguments))
            except ToolChanged:
                self._outage.answered()  # nothing more is wanted of it
                raise
            except AccessRefused as error:
                failure = error
                if self._callers:
                    self._callers.forget(on_behalf.caller)
            except NotHeard as error:
                failure = error
            except NoAnswer as error:
                failure = error
                if attempt.asked and not repeatable:
                    if isinstance(error, SessionRefused):
                        break
                    self._outage.failed(str(failure))
                    raise OutcomeUnknown(self.name) from error
        raise self._refusal(failure, tool, attempt) from failure

    def _refusal(self, failure: Exception, tool: str, attempt: _Attempt) -> Exception:
        """Returns what is said of a call that has failed on every connection."""
        if isinstance(failure, AccessRefused) and self._callers:
            self._outage.answered()
            return self._callers.missing(f"the server does not take the token ({failure})")
        if isinstance(failure, AccessRefused) and attempt.asked:
            told = f"The server {self.name} does not let the platform call {tool} ({failure})."
            return CallFailed("access_refused", told)
        if isinstance(failure, SessionRefused) and attempt.asked:
            self._outage.answered()
            return CallFailed("tool_failed", str(failure))
        self._outage.failed(str(failure))
        return ServerAway(self.name, f"the MCP server {self.name} does not answer: {failure}")

    async def _answer(self, answer: Awaitable[_T]) -> _T:
        """Returns what the server answers to a call, and notes that it does, also where it refuses.

        That it lists its tools says nothing: it may do so, and answer no call.
        """
        try:
            found = await answer
        except (AccessRefused, CallFailed):
            self._outage.answered()
            raise
        self._outage.answered()
        return found

    def _check(self, tool: str, listed: Listed) -> None:
        """Holds what a server offers against what was accepted. Raises ToolChanged."""
        state = self._state_of(tool, listed)
        if state == "gone":
            raise ToolChanged("tool_gone", f"The server {self.name} has no tool {tool} any more.")
        if state == "changed":
            raise ToolChanged(
                "tool_changed",
                f"The server {self.name} has changed its tool {tool}, and nobody has accepted that; do without it.",
            )

    def _state_of(self, tool: str, listed: Listed) -> str:
        offered = listed.tools.get(tool)
        if offered is None:
            return "changed" if tool in listed.invalid else "gone"
        return "accepted" if offered.digest == self._accepted[tool].digest else "changed"

    async def _check_result(self, tool: str, result: mcp_types.CallToolResult, *, within_s: float) -> None:
        """Holds a result against what was accepted. Raises CallFailed, also where that takes longer."""
        schema = self._accepted[tool].output_schema
        if schema is None or result.is_error:
            return
        problem = "it has no structured content"
        if "structured_content" in result.model_fields_set:
            try:
                async with asyncio.timeout(within_s), self._checking:
                    problem = await self._checks.problem_of(result.structured_content, schema)
            except TimeoutError:
                problem = TOO_MUCH
        if problem:
            told = f"No result: it is not what the tool says it is ({problem}). What was asked for may have been done."
            raise CallFailed("tool_failed", told)

    async def _known(self, opened: _Open) -> Listed:
        if time.monotonic() >= opened.known_until:
            opened.listed = await opened.connection.tools(self._accepted)
            opened.known_until = time.monotonic() + self._settings.mcp_check_interval_s
            self._tell(opened.listed)
        return opened.listed

    def _tell(self, listed: Listed) -> None:
        states = {tool: self._state_of(tool, listed) for tool in self._accepted}
        for tool, state in states.items():
            if state != "accepted":
                why = listed.invalid.get(tool, "")
                log.warning("tool is not as accepted", server=self.name, tool=tool, state=state, why=why)
        for state in TOOL_STATES:
            TOOLS.labels(self.name, state).set(sum(each == state for each in states.values()))

    async def _token(self, on_behalf: OnBehalf) -> str:
        """Returns the token to call with. Raises GrantMissing, ServerAway."""
        if self._callers is None:
            return self._own_token()
        return await self._callers.token(on_behalf.caller, on_behalf.run_token)

    def _own_token(self) -> str:
        file = self._server.token_file
        try:
            token = file.read_text(encoding="utf-8").strip() if file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ServerAway(self.name, f"the token for the MCP server {self.name} can't be read: {error}") from error
        for opened in [opened for before, opened in self._open.items() if before != token]:
            self._retire(opened)
        return token

    @asynccontextmanager
    async def _using(self, token: str) -> AsyncIterator[_Open]:
        """Gives the connection of a token.

        One that fails is used by no other call any more, and closed once those that it carries have ended.
        """
        found = self._open.get(token)
        if found is None or found.connection.has_ended:
            if found is not None:
                self._retire(found)
            found = self._open[token] = _Open(
                token,
                Connection(lambda: self._client(token), connect_timeout_s=self._settings.mcp_connect_timeout_s),
            )
        # Nothing else happens in between: others find it in use.
        self._open.move_to_end(token)
        found.calls += 1
        if len(self._open) > MOST_CONNECTIONS:
            self._retire(next(iter(self._open.values())))
        try:
            yield found
        except (AccessRefused, AnswerNotRead, NoAnswer):
            self._retire(found)
            raise
        finally:
            found.calls -= 1
            if found.is_retired and found.calls == 0:
                self._close(found)

    def _retire(self, opened: _Open) -> None:
        if self._open.get(opened.token) is opened:
            del self._open[opened.token]
        if not opened.is_retired:
            opened.is_retired = True
            if opened.calls == 0:
                self._close(opened)

    def _close(self, opened: _Open) -> None:
        # By a task of its own: a server may take long to say goodbye, and nobody waits for that.
        closing = detached(opened.connection.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    @asynccontextmanager
    async def _client(self, token: str) -> AsyncIterator[Client]:
        timeout_s = self._call_timeout_s
        async with AsyncExitStack() as stack:
            if self._server.command:
                reached: Any = program(
                    self.name,
                    self._server.command,
                    self._server.environment,
                    most_bytes=self._settings.mcp_answer_bytes,
                )
            else:
                http = await stack.enter_async_context(self._http(McpTransport, token))
                reached = streamable_http_client(
                    str(self._server.url), http_client=http, max_sse_event_size=self._settings.mcp_answer_bytes
                )
            sound = with_sound_tools(reached, lambda: client.protocol_version)
            client = await stack.enter_async_context(Client(sound, read_timeout_seconds=timeout_s, cache=None))
            # The library's own check has no bounds, and holds up all servers meanwhile.
            client.session.validate_tool_result = _unchecked  # type: ignore[assignment, method-assign]
            yield client

    def _http(self, transport: type[BoundedTransport], token: str = "") -> httpx2.AsyncClient:
        settings = self._settings
        return httpx2.AsyncClient(
            transport=transport(settings.mcp_answer_bytes, ca=settings.mcp_ca),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx2.Timeout(settings.mcp_connect_timeout_s, read=self._call_timeout_s),
            trust_env=False,
        )


async def _unchecked(_tool: str, _result: mcp_types.CallToolResult) -> None:
    """Stands for a check; results are held against what was accepted."""
