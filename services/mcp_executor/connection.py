"""A connection to one MCP server, on behalf of the executor or of one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple

import mcp.types as mcp_types
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import ValidationError

from services.kit.text.problems import problems_of
from services.kit.wire.tasks import detached
from services.mcp_executor.accepted import Definition
from services.mcp_executor.errors import AnswerNotRead, CallFailed
from services.mcp_executor.http_answers import HTTP_REFUSED, HTTP_STATUS, IN_SESSION, TOO_LARGE
from services.mcp_executor.listings import INVALID

MOST_TOOLS: Final = 10_000
MOST_PAGES: Final = 100
# Statuses that say nothing against the request.
_AWAY: Final = frozenset((408, 425, 429, *range(500, 600)))
_LONGEST_WORDS: Final = 1000


class Listed(NamedTuple):
    """A server's tools by name: those that are some, and of the others why not."""

    tools: Mapping[str, Definition]
    invalid: Mapping[str, str]


class NoAnswer(Exception):
    """The server did not answer, or nothing that is an answer; what was asked for may have been done."""


class NotHeard(NoAnswer):
    """The request did not come to be heard: nothing was done."""


class SessionRefused(NoAnswer):
    """The server refuses the call, or knows the session no more: which of them, a new connection tells."""


class AccessRefused(Exception):
    """The server does not take the token."""


class Connection:
    """Opened by a task of its own, which the library wants to be the one that closes it."""

    def __init__(self, client: Callable[[], AbstractAsyncContextManager[Client]], *, connect_timeout_s: float) -> None:
        self._make = client
        self._connect_timeout_s = connect_timeout_s
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = detached(self._live())

    @property
    def has_ended(self) -> bool:
        """Whether it is of no more use."""
        return self._task.done() or self._closing.is_set()

    async def tools(self, wanted: Collection[str] | None = None) -> Listed:
        """Returns the server's tools by name, or those that are wanted of them. Raises NoAnswer, AccessRefused."""
        client = await self._client()
        found: dict[str, Definition] = {}
        invalid: dict[str, str] = {}
        seen = 0
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            try:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            except (MCPError, ValidationError, TimeoutError) as error:
                failure = _failure(error)
                raise (NoAnswer(_words(error)) if isinstance(failure, CallFailed) else failure) from error
            seen += len(page.tools)
            invalid |= (page.meta or {}).get(INVALID, {})
            for tool in page.tools:
                if wanted is not None and tool.name not in wanted:
                    continue
                definition = Definition.of(tool)
                if found.setdefault(tool.name, definition) != definition:
                    invalid[tool.name] = "it is listed twice, and not the same"
            cursor = page.next_cursor
            if not cursor:
                return Listed({name: each for name, each in found.items() if name not in invalid}, invalid)
            if seen > MOST_TOOLS:
                break
        raise NoAnswer(f"it lists more than {MOST_TOOLS:,} tools, or {MOST_PAGES} pages of them")

    async def call(self, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        """Calls a tool. Raises NoAnswer, AccessRefused, CallFailed."""
        client = await self._client()
        try:
            return await client.call_tool(tool, arguments)
        except InputRequiredRoundsExceededError as error:
            raise CallFailed(
                "asks_back", "The server asks for more than the arguments, which is not offered."
            ) from error
        except ValidationError as error:  # which it would be each time
            problem = str(problems_of(error)[0])[:_LONGEST_WORDS]
            told = f"No result: the answer is none of MCP ({problem}). What was asked for may have been done."
            raise CallFailed("tool_failed", told) from error
        except (MCPError, TimeoutError, RuntimeError) as error:
            raise _failure(error) from error

    async def aclose(self) -> None:
        """Closes it; calls under way raise NoAnswer."""
        self._closing.set()
        await asyncio.wait([self._task])

    async def _client(self) -> Client:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                return await asyncio.shield(self._opened)
        except TimeoutError as error:
            self._closing.set()
            self._task.cancel()
            raise NotHeard(f"no connection within {self._connect_timeout_s:g} s") from error
        except AccessRefused:
            raise
        except Exception as error:
            raise NotHeard(_words(error)) from error

    async def _live(self) -> None:
        try:
            async with self._make() as client:
                self._opened.set_result(client)
                await self._closing.wait()
        except BaseException as error:
            if not self._opened.done():
                cause = _first(error)
                found = _failure(cause) if isinstance(cause, MCPError) else NotHeard(_words(cause))
                self._opened.set_exception(found)
                self._opened.exception()  # it is told whoever asks for the connection
            if isinstance(error, asyncio.CancelledError):
                raise


def _failure(error: Exception) -> Exception:
    """Returns what an error of the library means."""
    if not isinstance(error, MCPError):
        return NoAnswer(_words(error))
    # A server may find a way to say that code itself, with any data or none.
    refused = error.data if error.code == HTTP_REFUSED and isinstance(error.data, dict) else {}
    status, in_session = refused.get(HTTP_STATUS), refused.get(IN_SESSION)
    if not isinstance(status, int):
        status = None
    if status in (401, 403):
        return AccessRefused(f"HTTP status {status}")
    if status == 404:
        return NotHeard("it knows the session no more" if in_session else _words(error))
    if status == 400 and in_session:
        return SessionRefused(_words(error))
    if status is not None:
        return NoAnswer(_words(error)) if status in _AWAY else CallFailed("tool_failed", _words(error))
    if error.code == TOO_LARGE:
        return AnswerNotRead(_words(error))
    if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT, PARSE_ERROR):
        return NoAnswer(_words(error))
    return CallFailed("invalid_arguments" if error.code == INVALID_PARAMS else "tool_failed", _words(error))


def _first(error: BaseException) -> BaseException:
    """Returns the first of the things that went wrong."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_LONGEST_WORDS]
