"""Agents as tools while gateways go away: a call stays with its run, and says which it was where it can't.

And where runs ask: whoever sits at a client that has forms answers there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from mcp import Client
from mcp.types import ElicitResult
from signalbox.v1 import agents_pb2, agents_pb2_grpc, questions_pb2, questions_pb2_grpc, runs_pb2, runs_pb2_grpc

from services.kit.agent_tools.callers import OneCaller
from services.kit.agent_tools.tools import AgentTools

RECOVERY_S = 0.8
QUIET_S = 1.2
UNAVAILABLE, DENIED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.PERMISSION_DENIED


class Runs(runs_pb2_grpc.RunServiceServicer, questions_pb2_grpc.QuestionServiceServicer):
    """One run, whose calls fail as they are told to, one after the other; then it ends."""

    def __init__(self) -> None:
        self.request_ids: list[str] = []
        self.creations_cut: list[grpc.StatusCode] = []
        # After how long a watch breaks off, and how.
        self.watches_cut: list[tuple[float, grpc.StatusCode]] = []
        self.is_there = True
        # What it asks, one after the other, and of whom; and what it was answered.
        self.asks: list[dict[str, Any]] = []
        self.right = runs_pb2.ANSWER_RIGHT_CALLER
        self.answers: list[Any] = []
        # What somebody else answers once a question has been looked at.
        self.answers_of_others: list[str] = []

    @property
    def question(self) -> runs_pb2.InputRequest:
        number = len(self.answers)
        return ParseDict({"input_request_id": f"q{number}", **self.asks[number]}, runs_pb2.InputRequest())

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Any) -> runs_pb2.CreateRunResponse:  # noqa: N802 - the proto's name
        """Fails once the run is there."""
        self.request_ids.append(request.request_id)
        if self.creations_cut:
            await context.abort(self.creations_cut.pop(0))
        return runs_pb2.CreateRunResponse(run=runs_pb2.Run(run_id="run-1"))

    async def WatchRun(self, _request: Any, context: Any) -> AsyncIterator[runs_pb2.WatchRunResponse]:  # noqa: N802 - the proto's name
        """Says nothing for a while."""
        if self.watches_cut:
            after_s, code = self.watches_cut.pop(0)
            await asyncio.sleep(after_s)
            await context.abort(code)
        if len(self.answers) < len(self.asks):
            return
        run = runs_pb2.Run(run_id="run-1", state=runs_pb2.RUN_STATE_SUCCEEDED)
        yield runs_pb2.WatchRunResponse(event=runs_pb2.RunEvent(sequence=9, run_ended=runs_pb2.RunEnded(run=run)))

    async def GetRun(self, _request: Any, context: Any) -> runs_pb2.GetRunResponse:  # noqa: N802 - the proto's name
        """Answers where the run's gateway is there."""
        if not self.is_there:
            await context.abort(UNAVAILABLE)
        if len(self.answers) == len(self.asks):
            return runs_pb2.GetRunResponse(run=runs_pb2.Run(run_id="run-1"))
        run = runs_pb2.Run(run_id="run-1", state=runs_pb2.RUN_STATE_AWAITING_INPUT, input_request=self.question)
        return runs_pb2.GetRunResponse(run=run)

    async def GetQuestion(self, _request: Any, _context: Any) -> questions_pb2.GetQuestionResponse:  # noqa: N802 - the proto's name
        """The one that is open."""
        question = questions_pb2.Question(
            run_id="run-1", state="QUESTION_STATE_OPEN", input_request=self.question, right=self.right
        )
        self.answers += self.answers_of_others
        self.answers_of_others.clear()
        return questions_pb2.GetQuestionResponse(question=question)

    async def AnswerQuestion(  # noqa: N802 - the proto's name
        self, request: questions_pb2.AnswerQuestionRequest, context: Any
    ) -> questions_pb2.AnswerQuestionResponse:
        """Takes what comes to the question that is open."""
        if request.input_request_id != self.question.input_request_id:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION)
        self.answers.append(request.answer or {name: each.string_value for name, each in request.answers.items()})
        return questions_pb2.AnswerQuestionResponse()


class Agents(agents_pb2_grpc.AgentServiceServicer):
    """None that a list would show; clients ask for it."""

    async def ListAgents(self, _request: Any, _context: Any) -> agents_pb2.ListAgentsResponse:  # noqa: N802 - the proto's name
        """Lists none."""
        return agents_pb2.ListAgentsResponse()


@pytest.fixture
def runs() -> Runs:
    return Runs()  # type: ignore[abstract]


@pytest.fixture
async def tools(runs: Runs) -> AsyncIterator[AgentTools]:
    """The tools, by a gateway of that run."""
    server = grpc.aio.server()
    runs_pb2_grpc.add_RunServiceServicer_to_server(runs, server)
    agents_pb2_grpc.add_AgentServiceServicer_to_server(Agents(), server)
    questions_pb2_grpc.add_QuestionServiceServicer_to_server(runs, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        tools = AgentTools(channel, OneCaller(tuple), call_timeout_s=5, recovery_s=RECOVERY_S)
        yield tools
        await tools.aclose()
    await server.stop(None)


async def ask(tools: AgentTools) -> Any:
    async with Client(tools.server()) as client:
        return await client.call_tool("calculator", {"messages": []})


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"])
async def test_a_run_that_was_quiet_for_long_is_followed_past_a_gateway_that_goes_away(
    tools: AgentTools, runs: Runs, code: str
) -> None:
    runs.watches_cut = [(QUIET_S, grpc.StatusCode[code]), (0, UNAVAILABLE)]
    answer = await ask(tools)
    assert (answer.is_error, answer.structured_content["run_id"], runs.watches_cut) == (False, "run-1", [])


@pytest.mark.parametrize("is_there", [True, False])
async def test_watches_that_are_held_by_nobody_have_not_stood(tools: AgentTools, runs: Runs, is_there: bool) -> None:
    runs.is_there, runs.watches_cut = is_there, [(QUIET_S, UNAVAILABLE)] * 3
    answer = await ask(tools)
    assert (answer.is_error, len(runs.watches_cut)) == ((False, 0) if is_there else (True, 1))


async def test_a_gateway_that_stays_away_is_not_waited_for_for_ever_and_the_run_is_named(
    tools: AgentTools, runs: Runs
) -> None:
    runs.watches_cut = [(0, UNAVAILABLE)] * 20
    answer = await ask(tools)
    assert (answer.is_error, "The run run-1 goes on; follow_run follows it." in answer.content[0].text) == (True, True)
    assert runs.watches_cut


@pytest.mark.parametrize(("code", "goes_on"), [("PERMISSION_DENIED", True), ("NOT_FOUND", False)])
async def test_what_does_not_pass_is_said_at_once(tools: AgentTools, runs: Runs, code: str, goes_on: bool) -> None:
    runs.watches_cut = [(0, grpc.StatusCode[code]), (0, UNAVAILABLE)]
    answer = await ask(tools)
    assert (answer.is_error, "run-1 goes on" in answer.content[0].text) == (True, goes_on)
    assert len(runs.watches_cut) == 1


async def test_a_run_whose_creation_got_no_answer_is_asked_for_by_the_same_id(tools: AgentTools, runs: Runs) -> None:
    runs.creations_cut = [UNAVAILABLE, grpc.StatusCode.CANCELLED]
    answer = await ask(tools)
    assert (answer.is_error, len(runs.request_ids), len(set(runs.request_ids))) == (False, 3, 1)


async def test_a_creation_that_is_refused_is_not_asked_for_again(tools: AgentTools, runs: Runs) -> None:
    runs.creations_cut = [grpc.StatusCode.RESOURCE_EXHAUSTED]
    answer = await ask(tools)
    assert (answer.is_error, len(runs.request_ids)) == (True, 1)


def asked(*payloads: Any, **more: Any) -> dict[str, Any]:
    """A question of a hosted graph."""
    interrupts = [{"interrupt_id": f"i{number}", "payload": payload, **more} for number, payload in enumerate(payloads)]
    return {"question": "What now?", "interrupts": interrupts}


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "a text": ({"question": "Which one?"}, {"answer": "the first"}, "the first"),
    "a choice": ({"question": "Really?", "options": ["yes", "no"]}, {"answer": "yes"}, "yes"),
    "an interrupt": (asked("Go on?"), {"answer": "yes"}, "yes"),
    "two at once": (asked("Left?", "Right?"), {"i0": "a", "i1": "b"}, {"i0": "a", "i1": "b"}),
    "a number": (asked({"limit": 3}, answer_schema={"type": "integer"}), {"answer": 7}, "7"),
}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("kind", FORMS)
async def test_who_sits_at_a_client_with_forms_is_asked_there(
    tools: AgentTools, runs: Runs, kind: str, mode: Any
) -> None:
    question, filled_in, answer = FORMS[kind]
    runs.asks = [question, {"question": "And then?"}]
    forms: list[Any] = []

    async def fill_in(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001 - the library's name
        forms.append(params)
        content = filled_in if len(forms) == 1 else {"answer": "nothing"}
        return ElicitResult(action="accept", content=content)

    async with Client(tools.server(), mode=mode, elicitation_callback=fill_in) as client:
        ended = await client.call_tool("calculator", {"messages": []})
    assert (ended.structured_content["state"], runs.answers) == ("RUN_STATE_SUCCEEDED", [answer, "nothing"])
    fields = forms[0].requested_schema["properties"]
    assert (forms[0].message, fields.keys()) == (question["question"], filled_in.keys())
    assert fields.get("answer", {}).get("enum") == question.get("options")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("why", ["declined", "more than a form", "an object", "of others", "no forms"])
async def test_a_question_that_nobody_there_answers_ends_the_call(
    tools: AgentTools, runs: Runs, why: str, mode: Any
) -> None:
    questions = {"more than a form": asked({"tool": "x"}), "an object": asked("?", answer_schema={"type": "object"})}
    runs.asks = [questions.get(why, {"question": "Which one?"})]
    if why == "of others":
        runs.right = runs_pb2.ANSWER_RIGHT_UNSPECIFIED
    forms: list[Any] = []

    async def decline(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001 - the library's name
        forms.append(params)
        return ElicitResult(action="decline")

    callback = None if why == "no forms" else decline
    async with Client(tools.server(), mode=mode, elicitation_callback=callback) as client:
        ended = await client.call_tool("calculator", {"messages": []})
    assert ended.structured_content["state"] == "RUN_STATE_AWAITING_INPUT"
    assert (runs.answers, len(forms)) == ([], 1 if why == "declined" else 0)


@pytest.mark.parametrize(
    ("state", "answers", "is_error"),
    [("run-1 q0", ["a"], False), ("run-1 q7", [], False), ("run-1", [], False), ("\ud800 q0", [], True)],
)
async def test_a_form_answers_the_question_that_it_was_made_for(
    tools: AgentTools, runs: Runs, state: str, answers: list[str], is_error: bool
) -> None:
    runs.asks = [{"question": "Which one?"}, {"question": "And then?"}]
    given: Any = {"answer": ElicitResult(action="accept", content={"answer": "a"})}
    async with Client(tools.server()) as client:
        ended = await client.session.call_tool("calculator", {}, input_responses=given, request_state=state)
    assert (runs.answers, ended.is_error) == (answers, is_error)


async def test_a_form_whose_question_another_answers_meanwhile_does_not_answer_the_next(
    tools: AgentTools, runs: Runs
) -> None:
    runs.asks = [{"question": "Which one?"}, {"question": "Really?"}]
    runs.answers_of_others = ["theirs"]
    given: Any = {"answer": ElicitResult(action="accept", content={"answer": "mine"})}
    async with Client(tools.server()) as client:
        ended = await client.session.call_tool("calculator", {}, input_responses=given, request_state="run-1 q0")
    assert (runs.answers, ended.is_error) == (["theirs"], False)
    assert ended.structured_content["state"] == "RUN_STATE_AWAITING_INPUT"
