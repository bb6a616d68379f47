"""Effects, once: ToolExecutorService for executors with tools that write.

Exception
├── Overtaken                another call was faster; what it did is looked up, and this one begins again
└── SignalboxError
    ├── KeyReused            FAILED_PRECONDITION: the key has the result of another call
    ├── NothingKept          NOT_FOUND: no call with that key has taken effect
    └── Contended            ABORTED: others were faster again and again

A call of a tool that writes is known by its run and its operation. `WritingToolExecutor` answers a repeat with the
first result and refuses what comes from an earlier claim of the run; the executor's own tools and its `Journal` make
effect, result and key one transaction, in which they check again what was looked up before. So it needs no lock, any
number of replicas may serve the same database, and a process that dies at any point leaves all of it or nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

import grpc
from google.protobuf import struct_pb2
from signalbox.v1 import tools_pb2

from services.kit.errors import SignalboxError
from services.kit.identity.caller import Caller, RunClaims, StaleEpoch, authorize_writing
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.tools.executor import (
    Answer,
    Context,
    DescribedTool,
    ReadingToolExecutor,
    ServedTool,
    ToolRefused,
    check_run,
    count_calls_from_zero,
    refusal,
)

# Each one lost means that another call got through, so this many in a row are no accident.
ATTEMPTS: Final = 50
# The wire's numbers are doubles; beyond this, neighbouring integers are one.
LARGEST_EXACT_INTEGER: Final = 2**53


class Overtaken(Exception):
    """In the transaction of a call something was no longer as it had been read; nothing was written."""


class KeyReused(SignalboxError):
    """The key was used for another call."""

    reason = "KEY_REUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class NothingKept(SignalboxError):
    """No call with that key has taken effect."""

    reason = "CALL_UNKNOWN"
    code = grpc.StatusCode.NOT_FOUND


class Contended(SignalboxError):
    """Other calls kept changing the same data, and this one took no effect."""

    reason = "CONTENDED"
    code = grpc.StatusCode.ABORTED
    retryable = True


@dataclass(frozen=True)
class WriteCall:
    """A call of a tool that writes: by which run and operation, at which epoch, for whom, and what it asks for."""

    run_id: str
    operation_id: str
    epoch: int
    caller: Caller
    tool: str
    fingerprint: str


@dataclass(frozen=True)
class Kept:
    """What is kept under a key: which call it was, and its result."""

    fingerprint: str
    response: tools_pb2.CallToolResponse


@dataclass(frozen=True)
class Seen:
    """What a journal knows of a call: the highest epoch of its run (0 for none), and the result under its key."""

    epoch: int
    kept: Kept | None


class Journal(Protocol):
    """What an executor keeps of calls, in the database that its tools write to."""

    async def look_up(self, call: WriteCall) -> Seen:
        """Returns what is known of a call. Raises SignalboxError."""

    async def keep(self, call: WriteCall, response: tools_pb2.CallToolResponse) -> None:
        """Keeps the result of a call that has no effect, and its epoch. Raises Overtaken, SignalboxError."""

    async def fence(self, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is higher than its run's so far. Raises SignalboxError."""


class WritingTool(DescribedTool, Protocol):
    """A tool that writes."""

    async def apply(self, arguments: struct_pb2.Struct, call: WriteCall) -> tools_pb2.CallToolResponse:
        """Has its effect and keeps its result and epoch, in one transaction; checks the arguments first.

        In that transaction the key must have no result, the run no higher epoch, and what was read for it be unchanged:
        otherwise it raises Overtaken, and nothing is written. Raises ToolRefused and SignalboxError too.
        """


@runtime_checkable
class MixedTool(WritingTool, Protocol):
    """A tool that writes or reads, by its arguments; a reading tool of the same name does what reads."""

    def writes(self, arguments: struct_pb2.Struct) -> bool:
        """Whether a call with these arguments writes."""


class WritingToolExecutor(ReadingToolExecutor):
    """Serves tools that read, and tools that write to the tokens that say so."""

    def __init__(
        self,
        reading: Sequence[ServedTool],
        writing: Sequence[WritingTool],
        journal: Journal,
        verifier: RunTokenVerifier,
        *,
        for_platform: Collection[str] = (),
    ) -> None:
        super().__init__(reading, verifier, for_platform=for_platform)
        self._writing = {tool.name: tool for tool in writing}
        self._journal = journal
        count_calls_from_zero(self._writing)

    async def LookUpCall(  # noqa: N802 - the proto's name
        self, request: tools_pb2.LookUpCallRequest, context: Context
    ) -> tools_pb2.LookUpCallResponse:
        """Looks up the result of a call, by its key."""
        claims = self._claims(context)
        check_run(request.idempotency_key, request.epoch, claims)
        call = _write_call(request.idempotency_key, claims, tool="", fingerprint="")
        # First the fence: what an earlier claim has on its way must not arrive after "there is none".
        await self._journal.fence(call)
        seen = await self._journal.look_up(call)
        _check_epoch(call, seen)
        if seen.kept is None:
            raise NothingKept("no call with this key has taken effect", metadata={"tool_call_id": call.operation_id})
        return tools_pb2.LookUpCallResponse(result=seen.kept.response)

    def _find(self, request: tools_pb2.CallToolRequest, claims: RunClaims) -> Answer | None:
        tool = self._writing.get(request.tool)
        if tool is None or (isinstance(tool, MixedTool) and not tool.writes(request.arguments)):
            return super()._find(request, claims)
        authorize_writing(claims, request.tool)
        call = _write_call(
            request.idempotency_key, claims, tool=tool.name, fingerprint=fingerprint(tool.name, request.arguments)
        )
        return partial(self._write, tool, request.arguments, call)

    def _listed(self) -> Iterator[tools_pb2.Tool]:
        yield from (tool for tool in super()._listed() if tool.name not in self._writing)
        for tool in self._writing.values():
            yield self._described(tool, read_only=False)

    async def _write(
        self, tool: WritingTool, arguments: struct_pb2.Struct, call: WriteCall
    ) -> tools_pb2.CallToolResponse:
        for _ in range(ATTEMPTS):
            seen = await self._journal.look_up(call)
            _check_epoch(call, seen)
            if seen.kept is not None:
                return _answer_again(call, seen.kept)
            try:
                return await self._apply(tool, arguments, call)
            except Overtaken:
                continue
        raise Contended(f"others changed what {tool.name} is to change, {ATTEMPTS} times in a row; ask again")

    async def _apply(
        self, tool: WritingTool, arguments: struct_pb2.Struct, call: WriteCall
    ) -> tools_pb2.CallToolResponse:
        try:
            return await tool.apply(arguments, call)
        except ToolRefused as refused:
            response = refusal(refused)
            # What a retry can mend must stay free to be tried again with the same key.
            if not refused.retryable:
                await self._journal.keep(call, response)
            return response


def fingerprint(tool: str, arguments: struct_pb2.Struct) -> str:
    """Returns what tells calls of one key apart: a digest of tool and arguments, the same in every release."""
    text = json.dumps([tool, plain(arguments)], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plain(arguments: struct_pb2.Struct) -> dict[str, Any]:
    """Returns arguments as Python's values, with whole numbers as ints, which the wire does not know."""
    return {name: _plain(value) for name, value in arguments.fields.items()}


def _plain(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return plain(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if abs(number) <= LARGEST_EXACT_INTEGER and number.is_integer() else number
    return None if kind in (None, "null_value") else getattr(value, kind)


def _write_call(key: tools_pb2.IdempotencyKey, claims: RunClaims, *, tool: str, fingerprint: str) -> WriteCall:
    return WriteCall(key.run_id, key.tool_call_id, claims.epoch, claims.caller, tool, fingerprint)


def _check_epoch(call: WriteCall, seen: Seen) -> None:
    if call.epoch < seen.epoch:
        raise StaleEpoch(
            f"run {call.run_id} has been claimed at epoch {seen.epoch}", metadata={"epoch": str(seen.epoch)}
        )


def _answer_again(call: WriteCall, kept: Kept) -> tools_pb2.CallToolResponse:
    if kept.fingerprint != call.fingerprint:
        raise KeyReused("this key was used for another call", metadata={"tool_call_id": call.operation_id})
    return kept.response
