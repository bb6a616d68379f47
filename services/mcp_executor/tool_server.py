"""One configured MCP server: its connections, what its tools were accepted as, and calls of them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import mcp.types as mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import get_logger
from services.mcp_executor.accepted import Definition
from services.mcp_executor.connection import AccessRefused, Connection, NoAnswer, NotHeard
from services.mcp_executor.errors import OutcomeUnknown, ServerAway, ServerBusy, ToolChanged
from services.mcp_executor.exchange import CallersTokens
from services.mcp_executor.http_answers import BoundedTransport, McpTransport
from services.mcp_executor.metrics import TOOLS
from services.mcp_executor.servers import McpServer
from services.mcp_executor.settings import McpExecutorSettings

log = get_logger()
# Of callers with tokens of their own; the one that was used longest ago is closed.
MOST_CONNECTIONS: Final = 100
_OWN: Final = ""
_ATTEMPTS: Final = 2


@dataclass(frozen=True)
class OnBehalf:
    """For whom a server is called, and the run's token, which may be exchanged for theirs."""

    caller: Caller
    run_token: str = field(repr=False)


@dataclass
class _Open:
    """A connection, what it said of the server's tools, and how many calls it carries."""

    connection: Connection
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    known_until: float = 0.0
    calls: int = 0
    is_retired: bool = False


class ToolServer:
    """A server, over as many connections as there are tokens for it."""

    def __init__(
        self, name: str, server: McpServer, accepted: Mapping[str, Definition], settings: McpExecutorSettings
    ) -> None:
        self.name = name
        self._server = server
        self._accepted = accepted
        self._settings = settings
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._under_way = 0
        self._issuer = self._http(BoundedTransport) if server.token_exchange else None
        self._callers = (
            CallersTokens(name, server.token_exchange, self._issuer) if server.token_exchange and self._issuer else None
        )
        for state in ("accepted", "changed", "gone"):
            TOOLS.labels(name, state)

    async def definitions(self) -> Mapping[str, Definition]:
        """Returns what the server says of its tools now, by the executor's own token. Raises ServerAway."""
        try:
            async with self._using(_OWN, self._own_token()) as opened:
                return await self._known(opened, anew=True)
        except (AccessRefused, NoAnswer) as error:
            raise ServerAway(f"the MCP server {self.name} can't be asked for its tools: {error}") from error

    async def call(
        self, tool: str, arguments: dict[str, Any], on_behalf: OnBehalf, *, repeatable: bool
    ) -> mcp_types.CallToolResult:
        """Calls a tool; again, on another connection, where it was not heard or may be repeated.

        Raises ToolRefused, ServerAway, ServerBusy.
        """
        if self._under_way >= self._settings.mcp_calls_at_once:
            raise ServerBusy(f"{self._under_way} calls of the MCP server {self.name} are under way already")
        self._under_way += 1
        try:
            return await self._call(tool, arguments, on_behalf, repeatable=repeatable)
        finally:
            self._under_way -= 1

    async def aclose(self) -> None:
        """Closes all connections."""
        await asyncio.gather(*(each.connection.aclose() for each in self._open.values()))
        self._open.clear()
        if self._issuer is not None:
            await self._issuer.aclose()

    async def _call(
        self, tool: str, arguments: dict[str, Any], on_behalf: OnBehalf, *, repeatable: bool
    ) -> mcp_types.CallToolResult:
        failure: Exception = NotHeard()
        for _ in range(_ATTEMPTS):
            asked = False
            try:
                async with self._using(*await self._credential(on_behalf)) as opened:
                    self._check(tool, await self._known(opened))
                    asked = True
                    return await opened.connection.call(tool, arguments)
            except AccessRefused as error:
                failure = error
                if self._callers:
                    self._callers.forget(on_behalf.caller)
            except NotHeard as error:
                failure = error
            except NoAnswer as error:
                failure = error
                if asked and not repeatable:
                    raise OutcomeUnknown(self.name) from error
        if isinstance(failure, AccessRefused) and self._callers:
            raise self._callers.missing(f"the server does not take the token ({failure})") from failure
        raise ServerAway(f"the MCP server {self.name} does not answer: {failure}") from failure

    def _check(self, tool: str, definitions: Mapping[str, Definition]) -> None:
        """Holds what a server offers against what was accepted. Raises ToolChanged."""
        offered = definitions.get(tool)
        if offered is None:
            raise ToolChanged("tool_gone", f"The server {self.name} has no tool {tool} any more.")
        if offered.digest != self._accepted[tool].digest:
            raise ToolChanged(
                "tool_changed",
                f"The server {self.name} has changed its tool {tool}, and nobody has accepted that; do without it.",
            )

    async def _known(self, opened: _Open, *, anew: bool = False) -> Mapping[str, Definition]:
        if anew or time.monotonic() >= opened.known_until:
            tools = await opened.connection.tools()
            opened.definitions = {name: Definition.of(tool) for name, tool in tools.items()}
            opened.known_until = time.monotonic() + self._settings.mcp_check_interval_s
            self._tell(opened.definitions)
        return opened.definitions

    def _tell(self, definitions: Mapping[str, Definition]) -> None:
        states = {"accepted": 0, "changed": 0, "gone": 0}
        for tool, accepted in self._accepted.items():
            offered = definitions.get(tool)
            state = "gone" if offered is None else "accepted" if offered.digest == accepted.digest else "changed"
            states[state] += 1
            if state != "accepted":
                log.warning("tool is not as accepted", server=self.name, tool=tool, state=state)
        for state, count in states.items():
            TOOLS.labels(self.name, state).set(count)

    async def _credential(self, on_behalf: OnBehalf) -> tuple[str, str]:
        """Returns what connections are told apart by, and the token. Raises GrantMissing, ServerAway."""
        if self._callers is None:
            return _OWN, self._own_token()
        token = await self._callers.token(on_behalf.caller, on_behalf.run_token)
        return on_behalf.caller.subject, token

    def _own_token(self) -> str:
        file = self._server.token_file
        try:
            return file.read_text(encoding="utf-8").strip() if file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ServerAway(f"the token for the MCP server {self.name} can't be read: {error}") from error

    @asynccontextmanager
    async def _using(self, key: str, token: str) -> AsyncIterator[_Open]:
        """Gives the connection of a token, a new one where that is another than before.

        One that fails is used by no other call any more, and closed once those that it carries have ended.
        """
        found = self._open.get(key)
        if found is not None and (found.connection.has_ended or found.connection.token != token):
            await self._retire(key, found)
            found = None
        if found is None:
            connection = Connection(
                lambda: self._client(token), token=token, connect_timeout_s=self._settings.mcp_connect_timeout_s
            )
            found = self._open[key] = _Open(connection)
            if len(self._open) > MOST_CONNECTIONS:
                await self._retire(*next(iter(self._open.items())))
        self._open.move_to_end(key)
        found.calls += 1
        try:
            yield found
        except (AccessRefused, NoAnswer):
            await self._retire(key, found)
            raise
        finally:
            found.calls -= 1
            if found.is_retired and not found.calls:
                await found.connection.aclose()

    async def _retire(self, key: str, opened: _Open) -> None:
        if self._open.get(key) is opened:
            del self._open[key]
        opened.is_retired = True
        if not opened.calls:
            await opened.connection.aclose()

    @asynccontextmanager
    async def _client(self, token: str) -> AsyncIterator[Client]:
        timeout_s = self._settings.mcp_call_timeout_s
        async with AsyncExitStack() as stack:
            if self._server.command:
                program, *arguments = self._server.command
                reached: Any = StdioServerParameters(
                    command=program, args=arguments, env=dict(self._server.environment)
                )
            else:
                http = await stack.enter_async_context(self._http(McpTransport, token))
                reached = streamable_http_client(
                    str(self._server.url), http_client=http, max_sse_event_size=self._settings.mcp_answer_bytes
                )
            yield await stack.enter_async_context(Client(reached, read_timeout_seconds=timeout_s, cache=None))

    def _http(self, transport: type[BoundedTransport], token: str = "") -> httpx2.AsyncClient:
        settings = self._settings
        return httpx2.AsyncClient(
            transport=transport(settings.mcp_answer_bytes, ca=settings.mcp_ca),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx2.Timeout(settings.mcp_connect_timeout_s, read=settings.mcp_call_timeout_s),
            trust_env=False,
        )
