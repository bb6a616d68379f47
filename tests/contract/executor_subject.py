"""An executor under test, the calls that can be made of it, and a run that makes them.

A sample is a call that succeeds. `others` are valid arguments that differ; `failing` ones make the tool refuse, with a
`ToolError`, and `later` ones with one that a retry can mend; `effects` counts how often a write has been applied.
`replica` is another replica of the executor, on the same database, and `mortal` starts one as a process that kills
itself at a step of its work, or never.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import grpc
import pytest
from signalbox.v1 import tools_pb2

from services.kit.errors import error_detail
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.keys import KeyPair
from services.kit.identity.run_tokens import RunTokenMinter

if TYPE_CHECKING:
    from signalbox.v1.tools_pb2_grpc import ToolExecutorServiceAsyncStub

TIMEOUT_S = 60.0
AUDIENCE = "signalbox-conformance"

# Starts a replica that dies at a step of its work (0: never), and returns it while it lives.
Mortal = Callable[[int], AbstractAsyncContextManager["ToolExecutorServiceAsyncStub"]]


@dataclass(frozen=True)
class Sample:
    """A tool call that succeeds, and its variants."""

    tool: str
    arguments: Mapping[str, Any]
    others: Mapping[str, Any] | None = None
    failing: Mapping[str, Any] | None = None
    later: Mapping[str, Any] | None = None
    effects: Callable[[], Awaitable[int]] | None = None


@dataclass(frozen=True)
class Subject:
    """An executor under test: how to reach it, the keys it trusts, and calls to make."""

    stub: ToolExecutorServiceAsyncStub
    keys: KeyPair
    reading: Sample
    writing: Sample | None = None
    caller: Caller = field(default_factory=lambda: Caller("27"))
    audience: str = AUDIENCE
    replica: ToolExecutorServiceAsyncStub | None = None
    mortal: Mortal | None = None

    def by(self, stub: ToolExecutorServiceAsyncStub) -> Subject:
        """The same executor, called at another of its replicas."""
        return replace(self, stub=stub)

    @property
    def tools(self) -> frozenset[str]:
        """The tools that the samples call."""
        return frozenset(sample.tool for sample in (self.reading, self.writing) if sample)


@dataclass(frozen=True)
class RunOf:
    """A run that calls the executor, at an epoch and from a checkpoint."""

    subject: Subject
    run_id: str = field(default_factory=lambda: str(uuid4()))
    epoch: int = 1
    checkpoint_id: str = "checkpoint-1"

    def token(self, *, keys: KeyPair | None = None, ttl_s: int = 600, audience: str = "", **claims: Any) -> str:
        """A run token; `claims` replace those of the run."""
        said = {
            "caller": self.subject.caller,
            "run_id": self.run_id,
            "agent": "conformance",
            "tools": self.subject.tools,
            "epoch": self.epoch,
            "writes": self.subject.writing is not None,
        }
        minter = RunTokenMinter((keys or self.subject.keys).private_pem, ttl_s=ttl_s)
        return minter.mint(RunClaims(**{**said, **claims}), audience or self.subject.audience)

    async def call(
        self,
        sample: Sample,
        arguments: Mapping[str, Any] | None = None,
        *,
        tool_call_id: str = "call-1",
        token: str | None = None,
        metadata: tuple[tuple[str, str], ...] | None = None,
        **request: Any,
    ) -> tools_pb2.CallToolResponse:
        """Makes a call; `request` replaces fields of the request."""
        key = tools_pb2.IdempotencyKey(run_id=self.run_id, checkpoint_id=self.checkpoint_id, tool_call_id=tool_call_id)
        fields = {"tool": sample.tool, "idempotency_key": key, "epoch": self.epoch, **request}
        message = tools_pb2.CallToolRequest(**fields)
        message.arguments.update(sample.arguments if arguments is None else arguments)
        sent = (bearer_metadata(token or self.token()),) if metadata is None else metadata
        return await self.subject.stub.CallTool(message, metadata=sent, timeout=TIMEOUT_S)

    async def look_up(self, tool_call_id: str = "call-1") -> tools_pb2.CallToolResponse | None:
        """Looks a call up by its key; None when it has taken no effect."""
        key = tools_pb2.IdempotencyKey(run_id=self.run_id, checkpoint_id="any", tool_call_id=tool_call_id)
        request = tools_pb2.LookUpCallRequest(idempotency_key=key, epoch=self.epoch)
        try:
            found = await self.subject.stub.LookUpCall(
                request, metadata=(bearer_metadata(self.token()),), timeout=TIMEOUT_S
            )
        except grpc.aio.AioRpcError as error:
            if error_detail(error).reason != "CALL_UNKNOWN":
                raise
            return None
        return found.result

    async def refused(self, sample: Sample, *others: Any, **more: Any) -> tuple[grpc.StatusCode, str]:
        """Makes a call that is refused, and returns code and reason."""
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await self.call(sample, *others, **more)
        detail = error_detail(raised.value)
        return detail.code, detail.reason
