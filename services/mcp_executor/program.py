"""A server as a program beside the executor: one message a line, on its standard input and output.

The library's own transport holds a line whatever its length, and logs each that is no message.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from mcp.types import jsonrpc_message_adapter as messages

from services.kit.telemetry.logs import get_logger
from services.kit.text.printing import printable
from services.mcp_executor.http_answers import readable, too_large

log = get_logger()
# Lines in a row that answer nothing: words that are no message, notifications, requests of its own, answers to what
# was not asked.
MOST_UNASKED: Final = 1000
# Of what a program says on its standard error.
MOST_LOGGED: Final = 100
LONGEST_LOGGED: Final = 500
# For which a program may end by itself, and then by SIGTERM.
STOP_S: Final = 2.0
_HEAD_BYTES: Final = 1000
_KIND: Final = re.compile(rb'"(method|params|result|error)"\s*:')
_ID_FIRST: Final = re.compile(rb'\s*\{[^{}\[\]]*?"id"\s*:\s*"?([^",}\s]+)')
Messages = MemoryObjectReceiveStream[SessionMessage | Exception]
Sends = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def program(
    server: str, command: Sequence[str], environment: Mapping[str, str], *, most_bytes: int
) -> AsyncIterator[tuple[Messages, Sends]]:
    """Runs a program, and passes messages of at most so many bytes; what it has started ends with it. Raises OSError.

    One that sends more, or on and on what nobody asked for, is read no further: for its callers it has hung up, but for
    whom it has answered too much, who is told so.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=get_default_environment() | dict(environment),
        limit=most_bytes,
        start_new_session=True,  # and with it a group, by which all of it is ended
    )
    said, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    given, asked = anyio.create_memory_object_stream[SessionMessage](0)
    unanswered = _Unanswered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, server, process, said, unanswered, most_bytes)
        tasks.start_soon(_write, process, asked, said, unanswered)
        tasks.start_soon(_log, server, process)
        try:
            yield heard, given
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)
            tasks.cancel_scope.cancel()
            for stream in (said, heard, given, asked):
                stream.close()


class _Unanswered:
    """Requests that were sent, and neither answered nor given up."""

    def __init__(self) -> None:
        # As texts: some programs answer to those.
        self._ids: dict[str, RequestId] = {}

    def sent(self, message: JSONRPCMessage) -> None:
        """Notes what is asked, and what no more."""
        if isinstance(message, JSONRPCRequest):
            self._ids[str(message.id)] = message.id
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.pop(str((message.params or {}).get("requestId")), None)

    def are_fewer_by(self, message: JSONRPCMessage) -> bool:
        """Whether a message answers one of them, which is then answered."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or str(message.id) not in self._ids:
            return False
        del self._ids[str(message.id)]
        return True

    def begun_by(self, head: bytes) -> RequestId | None:
        """Returns which of them a message answers that begins so; None where it answers none, or that can't be told."""
        if (kind := _KIND.search(head)) and kind[1] in (b"method", b"params"):
            return None  # the ids of a program's own requests are of its own count
        if found := _ID_FIRST.match(head):
            return self._ids.get(found[1].decode("utf-8", "replace"))
        return next(iter(self._ids.values())) if len(self._ids) == 1 and head.lstrip().startswith(b"{") else None


async def _read(
    server: str,
    process: asyncio.subprocess.Process,
    said: MemoryObjectSendStream[SessionMessage | Exception],
    unanswered: _Unanswered,
    most_bytes: int,
) -> None:
    unasked = 0
    with said, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while unasked < MOST_UNASKED:
            try:
                line = await _out(process.stdout).readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                log.warning("program sends more than a message may have", server=server)
                asked = unanswered.begun_by(await _out(process.stdout).read(_HEAD_BYTES))
                if asked is not None:
                    await said.send(SessionMessage(messages.validate_json(too_large(asked, most_bytes))))
                return
            unasked += 1
            try:
                message = messages.validate_json(readable(line), by_name=False)
            except ValueError:
                continue
            if unanswered.are_fewer_by(message):
                unasked = 0
            await said.send(SessionMessage(message))
        log.warning("program sends on and on what nobody asked for", server=server)


async def _write(
    process: asyncio.subprocess.Process,
    asked: MemoryObjectReceiveStream[SessionMessage],
    said: MemoryObjectSendStream[SessionMessage | Exception],
    unanswered: _Unanswered,
) -> None:
    stdin = process.stdin
    if stdin is None:
        raise RuntimeError("the program was started without pipes")
    try:
        async for each in asked:
            unanswered.sent(each.message)
            stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        said.close()  # it listens no more, so that nothing will be answered


async def _log(server: str, process: asyncio.subprocess.Process) -> None:
    logged = 0
    while part := await _out(process.stderr).read(LONGEST_LOGGED):
        if logged < MOST_LOGGED:
            logged += 1
            log.info("program says", server=server, text=printable(part.decode("utf-8", "replace")))


def _out(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise RuntimeError("the program was started without pipes")
    return stream


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_ended(process):
        _signal(process, signal.SIGTERM)
        await _has_ended(process)
    # Whoever of the group is left, also where the program itself has ended.
    _signal(process, signal.SIGKILL)
    await _has_ended(process)
    # What has left the group may hold its pipes open.
    if transport := getattr(process, "_transport", None):
        transport.close()


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    with anyio.move_on_after(STOP_S):
        while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for the ends of its pipes as well
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
