"""The agent `graph_editor` on real parts: runtime, Postgres, guard, executor, FalkorDB; only models are scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import psycopg
import pytest
from google.protobuf import json_format
from signalbox.v1 import (
    caller_pb2,
    graph_editor_pb2,
    outcome_pb2,
    questions_pb2,
    questions_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    tools_pb2,
    tools_pb2_grpc,
)

from services.graph_executor import server as graph_executor
from services.graph_executor.settings import GraphExecutorSettings
from services.guard import server as guard
from services.guard.settings import GuardSettings
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.caller_tokens import CallerTokenMinter
from services.kit.identity.keys import KeyPair, generate_keypair
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_GRAPH_EXECUTOR
from services.kit.wire.server import running
from services.runtime import server as runtime
from services.runtime.settings import RuntimeSettings
from tests.fixtures.client import watched
from tests.fixtures.ended import Ended
from tests.fixtures.scripted_model import Reply, ScriptedModel
from tests.integration.graph_editor.faulty_executor import FaultyExecutor, standing_before
from tests.integration.graph_editor.standing_guard import StandingGuard, standing_before_guard

POLICY = """
version: 1
labels:
  Ticket:
    properties:
      summary: {type: string}
      status: {type: string, values: [open, in progress, closed]}
      points: {type: integer}
  User: {properties: {name: {type: string}}}
  Secret: {properties: {text: {type: string}}}
edges:
  REPORTS: {from: [User], to: [Ticket]}
roles:
  "*": {read: [Ticket, User], write: [Ticket, User]}
  graph_writer: {write: "*"}
"""
GIVEN_UP_S = 60.0
ALLOW = Reply.text("ALLOW", usage=(30, 1))
CALLER = Caller("27")
# The rules of a plan with one operation, once it is handed in.
DONE = ["planned", "valid", "ok", "goal_complete"]


class EndedEdit(Ended):
    """A run of the graph editor."""

    @property
    def outcome(self) -> str:
        """How far the goal was reached."""
        return outcome_pb2.Outcome.Name(self.output.outcome).removeprefix("OUTCOME_")


@dataclass
class Bench:
    """The platform's inside, a graph of the test's own, and the models that a test scripts."""

    model: ScriptedModel
    screening: StandingGuard
    faulty: FaultyExecutor
    settings: RuntimeSettings
    callers: KeyPair
    runs: KeyPair
    graph: Any
    stub: Any = None
    questions: Any = None
    caller: Caller = CALLER

    @property
    def auth(self) -> tuple[tuple[str, str], ...]:
        """Metadata of the gateway's calls."""
        return (bearer_metadata(CallerTokenMinter(self.callers.private_pem).mint(self.caller)),)

    def script(self, *, parse: Sequence[Reply] = (), plan: Sequence[Reply] = (), answer: Sequence[Reply] = ()) -> None:
        """Says what the models answer."""
        for name, replies in (("parse", parse), ("plan", plan), ("answer", answer)):
            self.model.script(name, replies)

    async def ask(self, text: str = "Do it.", *, preview: bool = False, undo: str = "", **budget: Any) -> EndedEdit:
        """Creates a run and waits until it ends or asks."""
        asked = graph_editor_pb2.GraphEditorInput(goal="" if undo else text, preview=preview, undo_run_id=undo)
        request = runs_pb2.CreateRunRequest(
            input=runs_pb2.RunInput(graph_editor=asked), budget=caller_pb2.Budget(**budget), correlation_id="c-1"
        )
        answer = await self.stub.CreateRun(request, metadata=self.auth, timeout=GIVEN_UP_S)
        return await self.watch(answer.run.run_id)

    async def hear(self, text: str) -> tuple[runs_pb2.Run, list[runs_pb2.RunEvent]]:
        """Asks with the chunks of what is said; returns the run, and those events."""
        given = runs_pb2.RunInput(graph_editor=graph_editor_pb2.GraphEditorInput(goal=text))
        create = runs_pb2.CreateRunRequest(input=given, correlation_id="c-1")
        request = runs_pb2.ExecuteRunRequest(create=create, token_chunks=True)
        stream = self.stub.ExecuteRun(request, metadata=self.auth, timeout=GIVEN_UP_S)
        events = [response.event async for response in stream]
        return events[-1].run_ended.run, [event for event in events if not event.sequence]

    async def watch(self, run_id: str) -> EndedEdit:
        """Waits until a run ends or asks."""
        async for _ in watched(self.stub, self.auth, run_id, timeout_s=GIVEN_UP_S):
            pass
        found = await self.stub.GetRun(runs_pb2.GetRunRequest(run_id=run_id), metadata=self.auth)
        listed = await self.stub.ListDecisions(
            runs_pb2.ListDecisionsRequest(run_id=run_id, page_size=1000), metadata=self.auth, timeout=GIVEN_UP_S
        )
        return EndedEdit(found.run, list(listed.decisions))

    async def reply(self, waiting: EndedEdit, answer: str) -> EndedEdit:
        """Answers what a run asks and waits until it ends or asks again."""
        assert waiting.state == "AWAITING_INPUT", waiting.run
        asked = waiting.run.input_request.input_request_id
        request = runs_pb2.ResumeRunRequest(run_id=waiting.run.run_id, input_request_id=asked, answer=answer)
        await self.stub.ResumeRun(request, metadata=self.auth, timeout=GIVEN_UP_S)
        return await self.watch(waiting.run.run_id)

    async def question(self, waiting: EndedEdit, *who: str) -> questions_pb2.Question:
        """What a run asked last, as somebody sees it."""
        request = questions_pb2.GetQuestionRequest(run_id=waiting.run.run_id)
        answer: questions_pb2.GetQuestionResponse = await self.questions.GetQuestion(
            request, metadata=self.word(*who), timeout=GIVEN_UP_S
        )
        return answer.question

    async def answer(self, asked: questions_pb2.Question, text: str, *who: str) -> None:
        """Answers a question as somebody."""
        request = questions_pb2.AnswerQuestionRequest(
            run_id=asked.run_id,
            input_request_id=asked.input_request.input_request_id,
            plan_hash=asked.plan_hash,
            answer=text,
        )
        await self.questions.AnswerQuestion(request, metadata=self.word(*who), timeout=GIVEN_UP_S)

    def word(self, subject: str, *roles: str) -> tuple[tuple[str, str], ...]:
        """Metadata with the gateway's word about somebody."""
        caller = Caller(subject, frozenset(roles))
        return (bearer_metadata(CallerTokenMinter(self.callers.private_pem).mint(caller)),)

    async def forget_checkpoints(self, run_id: str) -> None:
        """Removes a run's checkpoints, as retention does in time."""
        dsn = self.settings.database_dsn.get_secret_value()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute("DELETE FROM platform.checkpoints WHERE thread_id = %s", [run_id])

    async def expire(self, waiting: EndedEdit) -> None:
        """Lets the time be up in which a run's question can be answered."""
        dsn = self.settings.database_dsn.get_secret_value()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute(
                "UPDATE platform.runs SET expires_at = now() - interval '1 second' WHERE run_id = %s",
                [waiting.run.run_id],
            )

    async def tokens(self) -> dict[str, int]:
        """Returns what callers have been charged with, as far as the replica has written it down."""
        dsn = self.settings.database_dsn.get_secret_value()
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            cursor = await connection.execute(
                "SELECT subject, sum(tokens) FROM platform.caller_tokens GROUP BY subject"
            )
            return {subject: int(tokens) for subject, tokens in await cursor.fetchall()}

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Calls a tool as a run of its own does, past the agent."""
        claims = RunClaims(CALLER, str(uuid4()), "graph_editor", frozenset({tool}), 1, True)
        token = RunTokenMinter(self.runs.private_pem).mint(claims, AUDIENCE_GRAPH_EXECUTOR)
        key = tools_pb2.IdempotencyKey(run_id=claims.run_id, checkpoint_id="c", tool_call_id="o")
        request = tools_pb2.CallToolRequest(tool=tool, idempotency_key=key, epoch=1)
        request.arguments.update(arguments)
        answer = await self.graph.CallTool(request, metadata=(bearer_metadata(token),), timeout=GIVEN_UP_S)
        assert not answer.HasField("error"), answer.error
        return json_format.MessageToDict(answer.output.data)

    async def nodes(self, label: str) -> dict[str, dict[str, Any]]:
        """Returns the nodes of a label by key, with their properties."""
        found = (await self.call("query_graph", label=label)).get("results", [])
        return {
            node["key"]: {name: value for name, value in node["properties"].items() if name != "key"}
            for node in (path["nodes"][0] for path in found)
        }

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[None]:
        """Runs a replica of the runtime."""
        async with (
            running("runtime", self.settings, runtime.build) as served,
            grpc.aio.insecure_channel(served.address) as channel,
        ):
            self.stub = runs_pb2_grpc.RunServiceStub(channel)
            self.questions = questions_pb2_grpc.QuestionServiceStub(channel)
            yield


@pytest.fixture
def policies() -> Mapping[str, Any]:
    """Limits of the agent that a test sets."""
    return {}


def _guard_settings(directory: Path, model: ScriptedModel) -> GuardSettings:
    return GuardSettings(
        run_token_public_key_file=directory / "run.pub",
        guard_model="guard",
        model_base_url=model.base_url,
        model_api_key="none",
        model_retries=0,
        shutdown_grace_s=1,
    )


@pytest.fixture
async def bench(tmp_path: Path, platform_dsn: str, falkordb: str, policies: Mapping[str, Any]) -> AsyncIterator[Bench]:
    """Everything, with one replica of the runtime."""
    runs, callers = generate_keypair(), generate_keypair()
    texts = {
        "run.pub": runs.public_pem, "run.key": runs.private_pem, "call.pub": callers.public_pem,
        "graph.yaml": POLICY, "policies.yaml": json.dumps({"graph_editor": policies}),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    executor_settings = GraphExecutorSettings(
        graph_url=falkordb,
        graph_policy=tmp_path / "graph.yaml",
        graph_name=f"g{uuid4().hex}",
        run_token_public_key_file=tmp_path / "run.pub",
        shutdown_grace_s=1,
    )
    async with (
        ScriptedModel() as model,
        running("guard", _guard_settings(tmp_path, model), guard.build) as screen,
        standing_before_guard(screen.address) as (screening, guard_address),
        running("graph_executor", executor_settings, graph_executor.build) as graph,
        standing_before(graph.address) as faulty,
        grpc.aio.insecure_channel(graph.address) as channel,
    ):
        model.script("guard", [ALLOW], repeat="last")
        settings = RuntimeSettings(
            database_dsn=platform_dsn,
            guard_target=f"ipv4:{guard_address}",
            sql_executor_target="ipv4:127.0.0.1:1",
            graph_executor_target=f"ipv4:{faulty.address}",
            run_token_private_key_file=tmp_path / "run.key",
            caller_token_public_key_file=tmp_path / "call.pub",
            model_base_url=model.base_url,
            model_retries=1,
            drain_s=0.5,
            sweep_interval_s=0.1,
            agent_model="agent",
            format_model="format",
            models={"parse": "parse", "plan": "plan", "answer": "answer"},
            policy_file=tmp_path / "policies.yaml",
        )
        made = Bench(model, screening, faulty, settings, callers, runs, tools_pb2_grpc.ToolExecutorServiceStub(channel))
        async with made.runtime():
            yield made
