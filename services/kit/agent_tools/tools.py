"""Agents as tools of an MCP server: each agent one, and tools that answer, follow and explain runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from signalbox.v1 import (
    agents_pb2,
    agents_pb2_grpc,
    hosted_pb2,
    questions_pb2,
    questions_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
)

from services.kit.agent_tools.asking import ANSWER_FIELD, filled_in, form_of, takes_forms
from services.kit.agent_tools.callers import Callers, Context, Metadata
from services.kit.agent_tools.telling import decided, progress, result_of, told_of
from services.kit.errors import error_detail
from services.kit.text.printing import printable
from services.kit.text.words import state_name
from services.kit.wire.carried_json import NotCarriedError, check_carried
from services.kit.wire.event_kinds import RUN_ENDED
from services.kit.wire.input_schema import agents_known, is_hosted, schema_of
from services.kit.wire.pages import listed, pages
from services.kit.wire.tasks import detached

ANSWER: Final = "answer_run"
EXPLAIN: Final = "explain_run"
FOLLOW: Final = "follow_run"
# By which a client says that it asks the same again: the run of the first time is followed.
REQUEST_ID: Final = "signalbox/request_id"
_RETRY_S: Final = 0.5
# What a gateway says that stops, is busy, or can't reach what is behind it: the run goes on meanwhile.
_CUT: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED})
_PASSING: Final = _CUT | {grpc.StatusCode.RESOURCE_EXHAUSTED}
_NO_RUN: Final = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT})
_RUN_ID: Final = {"type": "string", "description": "Id of the run, as the tool that began it said."}
ResponseT = TypeVar("ResponseT", bound=Message)
# What ends a call, or asks whoever sits at the client before it does.
CallResult = CallToolResult | InputRequiredResult


class ToolFailed(Exception):
    """A call that fails; the message says why, and what to do."""


class AgentTools:
    """The tools, by a gateway."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        callers: Callers,
        *,
        chosen: frozenset[str] = frozenset(),
        call_timeout_s: float,
        recovery_s: float,
    ) -> None:
        self._runs = runs_pb2_grpc.RunServiceStub(channel)
        self._agents = agents_pb2_grpc.AgentServiceStub(channel)
        self._questions = questions_pb2_grpc.QuestionServiceStub(channel)
        self._callers = callers
        self._chosen = chosen
        self._call_timeout_s = call_timeout_s
        self._recovery_s = recovery_s
        self._cancelling: set[asyncio.Task[None]] = set()

    def server(self) -> Server[Any]:
        """Returns the server that offers them."""
        return Server(
            "signalbox",
            instructions="Agents whose every routing decision is kept; explain_run tells why a run went its way.",
            on_list_tools=self._on_list,
            on_call_tool=self._on_call,
            # No tool takes an argument from a header; without this each call would list all tools first.
            get_tool_input_schema=lambda _name: None,
        )

    async def aclose(self) -> None:
        """Waits until runs that are to be cancelled have been told."""
        if self._cancelling:
            await asyncio.wait(self._cancelling)

    async def listed(self, metadata: Metadata) -> list[Tool]:
        """Returns the tools of a caller. Raises ToolFailed."""
        # An agent of such a name would stand in the way of the tool.
        own = (ANSWER, FOLLOW, EXPLAIN)
        agents = [each for each in await self._listed_agents(metadata) if each.name not in own]
        names = {each.name for each in agents}
        if unknown := self._chosen - names:
            raise ToolFailed(f"there is no agent {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
        tools = [
            await self._tool_of(each, metadata) for each in agents if not self._chosen or each.name in self._chosen
        ]
        answer = {
            "description": "One of the options, or a text. Of several questions an object of answers, by their ids."
        }
        reads = ToolAnnotations(read_only_hint=True)
        return [
            *tools,
            Tool(
                name=ANSWER,
                description="Answers what a run asks, and goes on with it to its end or its next question.",
                input_schema=_object(run_id=_RUN_ID, answer=answer),
            ),
            Tool(
                name=FOLLOW,
                description="Follows a run to its end or its next question, for one whose call broke off.",
                input_schema=_object(run_id=_RUN_ID),
                annotations=reads,
            ),
            Tool(
                name=EXPLAIN,
                description="Tells which node of a run came next, by which rule, and on which numbers.",
                input_schema=_object(run_id=_RUN_ID),
                annotations=reads,
            ),
        ]

    async def events(self, run_id: str, after: int, metadata: Metadata) -> AsyncIterator[runs_pb2.RunEvent]:
        """Yields a run's events to its end or its question, past gateways that go away. Raises AioRpcError."""
        failing_since: float | None = None
        answers = False
        while True:
            tried_at = time.monotonic()
            request = runs_pb2.WatchRunRequest(run_id=run_id, after_sequence=after)
            call = self._runs.WatchRun(request, metadata=metadata)
            try:
                async for response in call:
                    failing_since, after = None, max(after, response.event.sequence)
                    yield response.event
            except grpc.aio.AioRpcError as error:
                now = time.monotonic()
                # A watch that has stood for long was no failure, though a quiet run told nothing meanwhile: unless
                # nobody was there, and it was merely held.
                if failing_since is None or (answers and now - tried_at > self._recovery_s):
                    failing_since = now
                if error.code() not in _PASSING or now - failing_since > self._recovery_s:
                    raise
                await asyncio.sleep(_RETRY_S)
                answers = await self._answers(run_id, metadata)
            else:
                return
            finally:
                call.cancel()

    async def _answers(self, run_id: str, metadata: Metadata) -> bool:
        """Whether a gateway is there: a watch of a quiet run is not told from one that nobody has taken."""
        try:
            await self._run(run_id, metadata)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def result(self, run_id: str, metadata: Metadata) -> CallToolResult:
        """Returns what a run came to, or what it asks. Raises AioRpcError."""
        return result_of(told_of(await self._run(run_id, metadata)))

    async def cancel(self, run_id: str, metadata: Metadata) -> None:
        """Cancels a run, where there is one to cancel."""
        try:
            await self._call(self._runs.CancelRun, runs_pb2.CancelRunRequest(run_id=run_id), metadata)
        except grpc.aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
                raise

    async def _on_list(self, context: Context, _asked: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            return ListToolsResult(tools=await self.listed(self._callers.metadata(context)))
        except (ToolFailed, grpc.aio.AioRpcError) as error:
            raise MCPError(INTERNAL_ERROR, _words(error)) from error

    async def _on_call(self, context: Context, asked: CallToolRequestParams) -> CallResult:
        try:
            if asked.request_state is not None:
                answer = filled_in((asked.input_responses or {}).get(ANSWER_FIELD))
                return await self._answered(context, asked.request_state, answer, cancels=asked.name != FOLLOW)
            return await self._called(context, asked.name, asked.arguments or {})
        except (ToolFailed, grpc.aio.AioRpcError) as error:
            return CallToolResult(content=[TextContent(text=_words(error))], is_error=True)

    async def _called(self, context: Context, name: str, arguments: Mapping[str, Any]) -> CallResult:
        metadata = self._callers.metadata(context)
        _check_carried(dict(arguments), "the arguments")
        if name == EXPLAIN:
            return result_of(await self._explained(_run_id(arguments), metadata))
        if name == FOLLOW:
            return await self._followed(context, _run_id(arguments), metadata, cancels=False)
        if name == ANSWER:
            run_id = _run_id(arguments)
            await self._answer(await self._question(run_id, metadata), arguments.get("answer"), metadata)
            return await self._followed(context, run_id, metadata)
        if self._chosen and name not in self._chosen:
            raise ToolFailed(f"there is no tool {printable(name)!r}")
        return await self._followed(context, await self._created(context, name, arguments, metadata), metadata)

    async def _created(self, context: Context, agent: str, arguments: Mapping[str, Any], metadata: Metadata) -> str:
        request_id, labels = self._callers.request(context)
        given: Any = (context.meta or {}).get(REQUEST_ID) or request_id
        if not isinstance(given, str):
            raise ToolFailed(f"_meta.{REQUEST_ID} is no text")
        request = runs_pb2.CreateRunRequest(input=_input(agent, arguments), labels=labels)
        try:
            request.request_id = given or str(uuid4())
        except ValueError as error:  # half a pair of surrogates
            raise ToolFailed(f"_meta.{REQUEST_ID} can't be sent: {error}") from error
        creating = detached(self._created_once(request, metadata))
        try:
            return (await asyncio.shield(creating)).run.run_id
        except asyncio.CancelledError:
            if self._callers.cancels(context):
                self._give_up(creating, metadata)
            raise

    async def _created_once(self, request: runs_pb2.CreateRunRequest, metadata: Metadata) -> runs_pb2.CreateRunResponse:
        """Creates a run; asks again, by the same id, where no answer came: the run may be there."""
        began = time.monotonic()
        while True:
            try:
                return await self._call(self._runs.CreateRun, request, metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _CUT or time.monotonic() - began > self._recovery_s:
                    raise
            await asyncio.sleep(_RETRY_S)

    async def _followed(self, context: Context, run_id: str, metadata: Metadata, *, cancels: bool = True) -> CallResult:
        """Follows a run to its end, or to where it asks. Raises ToolFailed, which names the run."""
        try:
            await self._callers.began(context, run_id, 0)
            await context.session.report_progress(0, message=f"run {run_id}")
            async for event in self.events(run_id, 0, metadata):
                if event.HasField(RUN_ENDED):
                    return result_of(told_of(event.run_ended.run))
                await self._callers.began(context, run_id, event.sequence)
                if told := progress(event):
                    await context.session.report_progress(event.sequence, message=told)
            run = await self._run(run_id, metadata)
            return await self._asked(context, run, metadata, cancels=cancels) or result_of(told_of(run))
        except grpc.aio.AioRpcError as error:
            raise ToolFailed(_words(error, run_id)) from error
        except asyncio.CancelledError:
            if cancels and self._callers.cancels(context):
                self._give_up(run_id, metadata)
            raise

    def _give_up(self, run: str | asyncio.Task[runs_pb2.CreateRunResponse], metadata: Metadata) -> None:
        # By a task of its own: the one that is cancelled can await nothing any more.
        async def given_up() -> None:
            await self.cancel(run if isinstance(run, str) else (await run).run.run_id, metadata)

        task = detached(given_up())
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _asked(
        self, context: Context, run: runs_pb2.Run, metadata: Metadata, *, cancels: bool
    ) -> CallResult | None:
        """Asks a client's person what a run asks of its caller; None where nobody can be asked that."""
        if run.state != runs_pb2.RUN_STATE_AWAITING_INPUT or not takes_forms(context):
            return None
        question = await self._question(run.run_id, metadata)
        form = form_of(question.input_request) if question.right else None
        if form is None:
            return None
        state = f"{run.run_id} {question.input_request.input_request_id}"
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return InputRequiredResult(input_requests={ANSWER_FIELD: ElicitRequest(params=form)}, request_state=state)
        if not context.session.can_send_request:
            return None
        try:
            said = await context.session.elicit_form(form.message, form.requested_schema)
        except (MCPError, ValidationError):  # the question is the call's end, then
            return None
        return await self._answered(context, state, filled_in(said), cancels=cancels)

    async def _answered(self, context: Context, state: str, answer: Any, *, cancels: bool) -> CallResult:
        """Goes on with a run whose question somebody has answered; ends the call where they did not."""
        metadata = self._callers.metadata(context)
        _check_carried({"answer": answer, "state": state}, "the form")
        run_id, _, question_id = state.partition(" ")
        if answer is None:
            return await self.result(run_id, metadata)
        question = await self._question(run_id, metadata)
        # Where another has answered meanwhile, or this one before its answer was lost, it has gone on.
        if (
            question.state == questions_pb2.QUESTION_STATE_OPEN
            and question.input_request.input_request_id == question_id
        ):
            try:
                await self._answer(question, answer, metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                    raise
        return await self._followed(context, run_id, metadata, cancels=cancels)

    async def _run(self, run_id: str, metadata: Metadata) -> runs_pb2.Run:
        return (await self._call(self._runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id), metadata)).run

    async def _question(self, run_id: str, metadata: Metadata) -> questions_pb2.Question:
        request = questions_pb2.GetQuestionRequest(run_id=run_id)
        return (await self._call(self._questions.GetQuestion, request, metadata)).question

    async def _answer(self, question: questions_pb2.Question, answer: Any, metadata: Metadata) -> None:
        if question.state != questions_pb2.QUESTION_STATE_OPEN:
            raise ToolFailed(f"{question.run_id} waits for no answer")
        request = questions_pb2.AnswerQuestionRequest(
            run_id=question.run_id,
            input_request_id=question.input_request.input_request_id,
            plan_hash=question.plan_hash,
        )
        interrupts = {each.interrupt_id for each in question.input_request.interrupts}
        if isinstance(answer, dict) and answer and answer.keys() <= interrupts:
            for interrupt_id, value in answer.items():
                request.answers[interrupt_id].CopyFrom(ParseDict(value, Value()))
        elif len(interrupts) > 1:
            raise ToolFailed(f"the run asks {len(interrupts)} things; answer by their ids: {', '.join(interrupts)}")
        elif answer in (None, ""):
            raise ToolFailed("answer must be there")
        else:
            request.answer = answer if isinstance(answer, str) else json.dumps(answer)
        await self._call(self._questions.AnswerQuestion, request, metadata)

    async def _explained(self, run_id: str, metadata: Metadata) -> dict[str, Any]:
        """Returns a run's decisions, each with the rules that were missed before, and by how much."""
        run = await self._run(run_id, metadata)
        decisions: list[runs_pb2.Decision] = await listed(
            partial(self._call, self._runs.ListDecisions, metadata=metadata),
            runs_pb2.ListDecisionsRequest(run_id=run_id),
            "decisions",
        )
        words: dict[int, runs_pb2.DecisionExplanation] = {}
        explain = partial(self._call, self._runs.ExplainRun, metadata=metadata)
        async for page in pages(explain, runs_pb2.ExplainRunRequest(run_id=run_id), "explanations"):
            words |= {each.sequence: each for each in page.explanations}
        none = runs_pb2.DecisionExplanation()
        return {
            "run_id": run.run_id,
            "agent": run.agent,
            "state": state_name(run.state),
            "decisions": [decided(each, words.get(each.sequence, none)) for each in decisions],
        }

    async def _listed_agents(self, metadata: Metadata, name: str = "") -> list[agents_pb2.Agent]:
        response = await self._call(self._agents.ListAgents, agents_pb2.ListAgentsRequest(name=name), metadata)
        return list(response.agents)

    async def _tool_of(self, agent: agents_pb2.Agent, metadata: Metadata) -> Tool:
        schema: dict[str, Any] = {"type": "object"}
        if not is_hosted(agent):
            schema = schema_of(agent.name) if agent.name in agents_known() else schema
        elif not agent.schemas_omitted:
            schema = MessageToDict(agent.input_schema) or schema
        else:
            for each in await self._listed_agents(metadata, agent.name):
                schema = MessageToDict(each.input_schema) or schema
        return Tool(name=agent.name, description=agent.description, input_schema=schema)

    async def _call(
        self, method: Callable[..., Awaitable[ResponseT]], request: Message, metadata: Metadata
    ) -> ResponseT:
        return await method(request, metadata=metadata, timeout=self._call_timeout_s)


def _words(error: ToolFailed | grpc.aio.AioRpcError, followed: str = "") -> str:
    if isinstance(error, ToolFailed):
        return str(error)
    detail = error_detail(error)
    named = "".join(f"\n  {each.field}: {each.description}" for each in detail.violations)
    run_id = detail.metadata.get("run_id") or ("" if detail.code in _NO_RUN else followed)
    goes_on = f"\nThe run {run_id} goes on; {FOLLOW} follows it." if run_id else ""
    return f"{detail.message or detail.code.name} ({detail.reason}){named}{goes_on}"


def _input(agent: str, arguments: Mapping[str, Any]) -> runs_pb2.RunInput:
    try:
        if agent in agents_known():
            return ParseDict({agent: arguments}, runs_pb2.RunInput())
        given = runs_pb2.RunInput(graph=hosted_pb2.GraphInput(agent=agent))
        given.graph.input.update(arguments)
    except (ParseError, ValueError) as error:
        raise ToolFailed(f"the arguments are no input of {printable(agent)}: {error}") from error
    return given


def _check_carried(given: dict[str, Any], what: str) -> None:
    try:
        check_carried(given)
    except NotCarriedError as error:
        raise ToolFailed(f"{what}: the value {error}") from error


def _run_id(arguments: Mapping[str, Any]) -> str:
    run_id = arguments.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise ToolFailed("run_id must be there, and a text")
    return run_id


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
