"""A guard, an evaluator and executors that answer as a test says, around a real runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
from google.protobuf import struct_pb2
from signalbox.v1 import (
    caller_pb2,
    evaluator_pb2,
    evaluator_pb2_grpc,
    guard_pb2,
    guard_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    tools_pb2,
    tools_pb2_grpc,
)

from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.identity.keys import generate_keypair
from services.kit.wire.server import running
from services.runtime import server as runtime
from services.runtime.settings import RuntimeSettings
from tests.fixtures.client import watched
from tests.fixtures.scripted_model import ScriptedModel

GIVEN_UP_S = 60.0
TOOLS = (
    "execute_db_query", "get_few_shot_examples", "fetch_code", "read_file", "search_codebase", "list_directory",
    "find_file", "add_node", "query_graph", "preview_changes", "read_changes", "undo_change",
)  # fmt: skip
ALLOWED = guard_pb2.ScreenResponse(verdict=guard_pb2.SCREEN_VERDICT_ALLOW, reason="allowed")
Context = grpc.aio.ServicerContext[Any, Any]
Answers = Callable[[tools_pb2.CallToolRequest, Context], Awaitable[tools_pb2.CallToolResponse]]


def described(name: str) -> tools_pb2.Tool:
    """A tool that takes anything."""
    tool = tools_pb2.Tool(name=name, description=f"It is {name}.")
    tool.input_schema.update({"type": "object", "properties": {}})
    return tool


def output(data: dict[str, Any] | None = None, **fields: Any) -> tools_pb2.CallToolResponse:
    """What a tool gave."""
    made = tools_pb2.ToolOutput(**{"text": "said", **fields})
    if data is not None:
        made.data.CopyFrom(struct_pb2.Struct())
        made.data.update(data)
    return tools_pb2.CallToolResponse(output=made)


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class OddServices(
    tools_pb2_grpc.ToolExecutorServiceServicer,
    guard_pb2_grpc.GuardServiceServicer,
    evaluator_pb2_grpc.EvaluatorServiceServicer,
):
    """Answers what it was told to; `called` is which tools were called, with the ids of the calls.

    The evaluator answers once `judging` is set, as it is.
    """

    stub: Any = None
    auth: Any = None
    model: Any = None
    minter: Any = None
    tools: Sequence[tools_pb2.Tool] = tuple(map(described, TOOLS))
    screening: guard_pb2.ScreenResponse = field(default_factory=lambda: ALLOWED)
    evaluation: Any = None
    critique: Any = None
    validation: Any = None
    judging: asyncio.Event = field(default_factory=_set)
    answers: dict[str, tools_pb2.CallToolResponse | Answers] = field(default_factory=dict)
    kept: tools_pb2.CallToolResponse | grpc.StatusCode = grpc.StatusCode.UNIMPLEMENTED
    called: list[tuple[str, str]] = field(default_factory=list)

    async def Screen(self, request: Any, _context: Context) -> Any:  # noqa: N802 - the proto's name
        """Gives its verdict."""
        answer = guard_pb2.ScreenResponse()
        answer.CopyFrom(self.screening)
        answer.kind = request.kind
        return answer

    async def EvaluateInvestigation(self, _request: Any, _context: Context) -> Any:  # noqa: N802
        """Says whether it is final."""
        await self.judging.wait()
        return self.evaluation

    async def CritiqueVerdict(self, _request: Any, _context: Context) -> Any:  # noqa: N802
        """Says whether it is approved."""
        await self.judging.wait()
        return self.critique

    async def ListTools(self, _request: Any, _context: Context) -> Any:  # noqa: N802
        """Lists the tools."""
        return tools_pb2.ListToolsResponse(tools=self.tools)

    async def CallTool(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Answers for the tool."""
        self.called.append((request.tool, request.idempotency_key.tool_call_id))
        answer = self.answers.get(request.tool, output({}))
        return await answer(request, context) if callable(answer) else answer

    async def LookUpCall(self, _request: Any, context: Context) -> Any:  # noqa: N802
        """Says what is kept of a call."""
        if isinstance(self.kept, grpc.StatusCode):
            await context.abort(self.kept, "so it is")
        return tools_pb2.LookUpCallResponse(result=self.kept)

    async def ValidateCause(self, _request: Any, _context: Context) -> Any:  # noqa: N802
        """Validates a cause."""
        await self.judging.wait()
        return self.validation or evaluator_pb2.ValidateCauseResponse(confirmed=True)

    def forget(self) -> None:
        """Forgets what a test has told it and asked of it; the next one asks as another caller."""
        kept = {"stub", "auth", "model", "minter"}
        said = type(self)()
        for name in {each.name for each in fields(self)} - kept:
            setattr(self, name, getattr(said, name))
        self.auth = (bearer_metadata(self.minter.mint(Caller(uuid4().hex))),)
        self.model.forget()

    async def run(self, given: runs_pb2.RunInput, **budget: Any) -> runs_pb2.Run:
        """Has a run come to its end."""
        request = runs_pb2.CreateRunRequest(
            input=given, budget=caller_pb2.Budget(**{"wall_time_s": 5, **budget}), correlation_id="c-1"
        )
        made = await self.stub.CreateRun(request, metadata=self.auth, timeout=GIVEN_UP_S)
        async for _ in watched(self.stub, self.auth, made.run.run_id, timeout_s=GIVEN_UP_S):
            pass
        asked = runs_pb2.GetRunRequest(run_id=made.run.run_id)
        found = await self.stub.GetRun(asked, metadata=self.auth, timeout=GIVEN_UP_S)
        run: runs_pb2.Run = found.run
        return run


@asynccontextmanager
async def odd_services(folder: Path, platform_dsn: str, **settings: Any) -> AsyncIterator[OddServices]:
    """Runs them, and a replica of the runtime that has them for guard, evaluator and executors."""
    runs, callers = generate_keypair(), generate_keypair()
    (folder / "run.key").write_text(runs.private_pem)
    (folder / "call.pub").write_text(callers.public_pem)
    odd = OddServices(minter=CallerTokenMinter(callers.private_pem))
    server = grpc.aio.server()
    tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server(odd, server)
    guard_pb2_grpc.add_GuardServiceServicer_to_server(odd, server)
    evaluator_pb2_grpc.add_EvaluatorServiceServicer_to_server(odd, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    target = f"ipv4:127.0.0.1:{port}"
    try:
        async with ScriptedModel() as odd.model:
            given = RuntimeSettings(
                **{
                    "database_dsn": platform_dsn,
                    "guard_target": target,
                    "evaluator_target": target,
                    "sql_executor_target": target,
                    "graph_executor_target": target,
                    "code_executor_target": target,
                    "run_token_private_key_file": folder / "run.key",
                    "caller_token_public_key_file": folder / "call.pub",
                    "model_base_url": odd.model.base_url,
                    "model_retries": 0,
                    "drain_s": 0.5,
                    "sweep_interval_s": 0.1,
                    "agent_model": "agent",
                    "format_model": "format",
                    "triage_model": "triage",
                    "research_model": "research",
                    "analysis_model": "analysis",
                    "models": {
                        "parse": "parse", "plan": "plan", "answer": "answer", "incident": "incident",
                    },
                    **settings,
                }
            )  # fmt: skip
            async with (
                running("runtime", given, runtime.build) as served,
                grpc.aio.insecure_channel(served.address) as channel,
            ):
                odd.stub = runs_pb2_grpc.RunServiceStub(channel)
                odd.forget()
                yield odd
    finally:
        await server.stop(None)
