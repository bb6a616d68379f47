"""Nodes of `incident_investigation`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import json_format, struct_pb2
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from signalbox.v1 import evaluator_pb2, guard_pb2, incident_investigation_pb2
from signalbox_routing.table import StateUpdate

from services.kit.models.prompts import data_block, prompt
from services.kit.models.records import UnreadableAnswer
from services.runtime.agents.code_review.answers import with_own_ids
from services.runtime.agents.code_review.code_tools import Source
from services.runtime.agents.context_budget import ask_within, gathered, lines_within
from services.runtime.agents.incident_investigation.conclusion import ANSWER, CONCLUDE, MOST_EVIDENCE, Conclusion
from services.runtime.agents.incident_investigation.evidence import EvidenceLookup, problems_of, stated_nowhere
from services.runtime.agents.incident_investigation.investigation_tools import InvestigationTools
from services.runtime.agents.incident_investigation.policy import IncidentPolicy
from services.runtime.agents.incident_investigation.state import (
    DEEP_DIVE,
    INITIAL,
    VALIDATION,
    CheckedAnswer,
    IncidentState,
)
from services.runtime.agents.screening import ALLOWED, BLOCKED, unscreened
from services.runtime.agents.structured import unusable
from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.evaluator_client import EVALUATOR, MOST_MODEL_CALLS, EvaluatorClient
from services.runtime.calls.guard_client import GuardClient
from services.runtime.errors import DependencyAway, ModelFailed, ModelRefused, ServiceFailed
from services.runtime.routing.run_context import NodeContext

PURPOSE: Final = "incident"
MOST_GATHERED: Final = 100
MOST_PROBLEMS: Final = 10
LONGEST_PROBLEM: Final = 1000
LONGEST_RESULT: Final = 20_000
UNSUPPORTED: Final = "the evidence does not show this cause"
_MODEL: Final = "model "
_WANTED: Final = "Call a tool, or hand in the final answer."
Incident = incident_investigation_pb2.IncidentInvestigationInput


class IncidentNodes:
    """The nodes, with the services they call."""

    def __init__(
        self,
        *,
        guard: GuardClient,
        tools: InvestigationTools,
        evidence: EvidenceLookup,
        model: ChatModel,
        evaluator: EvaluatorClient,
        policy: IncidentPolicy,
    ) -> None:
        self._guard = guard
        self._tools = tools
        self._evidence = evidence
        self._model = model
        self._evaluator = evaluator
        self._policy = policy

    async def screen_incident(self, state: IncidentState, context: NodeContext) -> StateUpdate:
        """Has all words of the incident screened, before anything else touches them.

        Raises DependencyAway when the guard gives no verdict.
        """
        screening = await self._guard.screen(
            context.run, words_of(incident_of(state)), kind=guard_pb2.TEXT_KIND_INCIDENT
        )
        return {
            "screening": ALLOWED if screening.allowed else BLOCKED,
            "screening_reason": screening.reason,
            "investigation_phase": INITIAL,
            "start_time": state["started_at"],
        }

    async def agent(self, state: IncidentState, context: NodeContext) -> StateUpdate:
        """Asks the model for calls or for its final answer, whose evidence is looked up at once.

        The last call that the limits allow is offered no tools. What was gathered outlives a model that comes to no
        conclusion. Raises ModelFailed, ModelRefused when nothing was.
        """
        incident, history = incident_of(state), list(state.get("messages") or ())
        added: list[BaseMessage] = [] if history else await self._opening(incident, context)
        is_last = self._is_last(state)
        if is_last:
            added.append(HumanMessage(prompt(__package__, "last_call", {"schema": ANSWER.schema})))
        tools = [] if is_last else [*await self._tools.functions(context, source_of(incident)), ANSWER.function]
        try:
            answer, conclusion, tried = await self._answer([*history, *added], tools)
        except (ModelFailed, ModelRefused) as error:
            if not gathered(history, self._policy.context_characters, without=CONCLUDE):
                raise
            return {**_turn(1, 0), **_inconclusive(error.message)}
        if conclusion is None:
            counted = state.get("calls_counted", 0) + len(answer.tool_calls)
            is_iteration = counted >= self._policy.calls_per_iteration
            turn = _turn(int(is_iteration), 0 if is_iteration else counted)
            return {"messages": _numbered([*added, *tried, answer], history), **turn}
        update = await self._concluded(conclusion, incident, context)
        messages = [*added, *tried, answer, *_taken(answer, update["answer"])]
        return {"messages": _numbered(messages, history), **_turn(1, 0), **update}

    async def tools(self, state: IncidentState, context: NodeContext) -> StateUpdate:
        """Runs the tool calls that the model asked for, one after another."""
        history = state["messages"]
        asked, source = history[-1], source_of(incident_of(state))
        calls = asked.tool_calls if isinstance(asked, AIMessage) else []
        answers: list[BaseMessage] = []
        brought = False
        for number, call in enumerate(calls):
            text = "error: not_taken: a final answer is handed in without other calls beside it"
            if number >= self._policy.calls_at_once:
                text = f"error: not_run: at most {self._policy.calls_at_once} calls at once; ask again for this one"
            elif call["name"] != CONCLUDE:
                found = await self._tools.call(context, source, call["name"], call["args"], call["id"] or "")
                text, brought = found.text, brought or not found.failed
            answers.append(ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
        update: StateUpdate = {"messages": _numbered(answers, history)}
        return {**update, "investigation_phase": DEEP_DIVE} if brought else update

    async def validation(self, state: IncidentState, context: NodeContext) -> StateUpdate:
        """Has the evaluator judge the last answer, by what was found. Raises DependencyAway, ServiceFailed.

        An answer that states what stands in nothing that was found is refuted by that, and judged by nobody.
        """
        answer, history = state["answer"], state["messages"]
        assert answer is not None, "only an answer comes here"  # noqa: S101 - an invariant of the routers
        incident = incident_of(state)
        found = [words_of(incident), incident.started_at.ToJsonString()]
        found += [each["found"] for each in answer["evidence"]]
        found += [each.result for each in gathered(history, MOST_GATHERED * LONGEST_RESULT, without=CONCLUDE)]
        said = await asyncio.to_thread(stated_nowhere, answer["conclusion"], found)
        confirmed = False
        if not said:
            request = cause_to_validate(incident, answer, history, self._policy.context_characters)
            judged = await self._evaluator.validate_cause(context.run, request)
            confirmed, said = judged.confirmed, [*judged.problems]
        update: StateUpdate = {"investigation_phase": VALIDATION, "validated": True, "confirmed": confirmed}
        if confirmed:
            return {**update, "problems": []}
        problems = [text[:LONGEST_PROBLEM] for text in said[:MOST_PROBLEMS]] or [UNSUPPORTED]
        refuted = prompt(__package__, "refuted", {"problems": problems})
        return {
            **update,
            "problems": problems,
            "confidence_score": min(state["confidence_score"], self._policy.unproved_confidence),
            "messages": _numbered([HumanMessage(refuted)], history),
        }

    async def _answer(
        self, prompt: Sequence[BaseMessage], tools: list[dict[str, Any]]
    ) -> tuple[AIMessage, Conclusion | None, list[BaseMessage]]:
        """Returns the model's answer, the conclusion in it if it is one, and what was said before it came to that."""
        tried: list[BaseMessage] = []
        problem = ""
        for attempt in range(self._policy.answer_attempts):
            try:
                most = self._policy.context_characters
                said, _ = await ask_within(self._model, PURPOSE, [*prompt, *tried], tools, most)
            except ModelFailed as error:
                problem = error.message
                tried += unusable("", problem, _WANTED)
                continue
            answer = with_own_ids(said, f"call-{len(prompt)}-{attempt}")
            if tools and any(call["name"] != CONCLUDE for call in answer.tool_calls):
                return answer, None, tried
            try:
                return answer, ANSWER.read(answer), tried
            except UnreadableAnswer as error:
                problem = str(error)
            tried += unusable(answer.text, problem, _WANTED)
        attempts = f"{self._policy.answer_attempts} attempts"
        raise ModelFailed(f"the model {self._model.name!r} gave no answer that can be used in {attempts}: {problem}")

    async def _concluded(self, conclusion: Conclusion, incident: Incident, context: NodeContext) -> StateUpdate:
        told = words_of(incident)
        checked = await self._evidence.check(context, source_of(incident), conclusion.evidence, told)
        sure = conclusion.confidence
        if any(each["problem"] for each in checked):
            sure = min(sure, self._policy.unproved_confidence)
        return {
            "answer": CheckedAnswer(conclusion=conclusion.model_dump(mode="json"), evidence=checked),
            "confidence_score": sure,
            "no_cause_found": not conclusion.cause_found,
            "validated": False,
            "confirmed": False,
        }

    async def _opening(self, incident: Incident, context: NodeContext) -> list[BaseMessage]:
        tables, labels = await self._tools.notes(context)
        given = {
            "tables": lines_within(tables.splitlines(), self._policy.context_characters),
            "graph": lines_within(labels.splitlines(), self._policy.context_characters),
            "most_calls": self._policy.calls_at_once,
        }
        return [
            SystemMessage(prompt(__package__, "system", given)),
            HumanMessage(data_block({"incident": shown(incident)})),
        ]

    def _is_last(self, state: IncidentState) -> bool:
        """Tells whether a limit allows no call of the model after the next, or what its answer takes and no more.

        That is the evaluator's calls, and those that look its evidence up.
        """
        budget, spend, policy = state["budget"], state["spend"], self._policy
        kept = min(MOST_EVIDENCE, budget["tool_calls"] // 2)
        return (
            state["iteration_count"] >= policy.max_iterations
            or state.get("turn_count", 0) >= policy.max_turns
            or 0 < budget["model_calls"] <= spend["model_calls"] + 1 + MOST_MODEL_CALLS
            or 0 < budget["tool_calls"] <= spend["tool_calls"] + kept
        )


def without_model(error: Exception) -> StateUpdate | None:
    """Returns what a model comes to that is away, refuses, or says nothing of use; None for any other failure."""
    if isinstance(error, ModelFailed | ModelRefused) or (
        isinstance(error, DependencyAway) and error.dependency.startswith(_MODEL)
    ):
        return {"model_failed": True, "error": error.message, "error_message": error.message}
    return None


def without_evaluator(error: Exception) -> StateUpdate | None:
    """Returns what an answer comes to that nobody could judge; None for any other failure."""
    if isinstance(error, ServiceFailed) or (isinstance(error, DependencyAway) and error.dependency == EVALUATOR):
        told = f"the answer could not be validated: {error.message}"
        return {"validated": True, "confirmed": False, "problems": [told], "error_message": told}
    return None


def without_guard(error: Exception) -> StateUpdate | None:
    """Returns what an incident comes to that the guard gave no verdict on; None for any other failure."""
    update = unscreened(error)
    return None if update is None else {**update, "error_message": update["error"]}


def failed_investigation(message: str) -> StateUpdate:
    """Returns what a failed node comes to in an investigation's own words."""
    return {"investigation_status": "failed", "error_message": message}


def cause_to_validate(
    incident: Incident, answer: CheckedAnswer, messages: Sequence[BaseMessage], characters: int
) -> evaluator_pb2.ValidateCauseRequest:
    """Returns what the evaluator judges: the answer and what was found, and nothing of how it came to that."""
    conclusion = answer["conclusion"]
    return evaluator_pb2.ValidateCauseRequest(
        title=incident.title,
        service=incident.service,
        started_at=incident.started_at,
        text=incident.text,
        root_cause=conclusion["root_cause"],
        explanation=conclusion["explanation"],
        evidence=[
            evaluator_pb2.CauseEvidence(
                claim=each["evidence"]["claim"],
                source=struct_of({name: value for name, value in each["evidence"].items() if name != "claim"}),
                found=each["found"],
                problem=each["problem"],
            )
            for each in answer["evidence"]
        ],
        gathered=[
            evaluator_pb2.GatheredResult(
                tool=each.tool, arguments=struct_of(each.arguments), result=each.result[:LONGEST_RESULT]
            )
            for each in gathered(messages, characters // 2, without=CONCLUDE)[-MOST_GATHERED:]
        ],
    )


def struct_of(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns JSON values by name."""
    struct = struct_pb2.Struct()
    # As JSON, which has no numbers beyond its own.
    struct.update(json.loads(json.dumps(dict(values), default=str), parse_constant=str))
    return struct


def incident_of(state: IncidentState) -> Incident:
    """Returns the incident as it was asked about."""
    return Incident.FromString(state["incident"])


def source_of(incident: Incident) -> Source | None:
    """Returns where its code is; None where that was not said."""
    if not incident.HasField("source"):
        return None
    return Source(repository=incident.source.repository, commit=incident.source.commit)


def shown(incident: Incident) -> dict[str, Any]:
    """Returns what of an incident a model is shown: of its words, those that were screened.

    Its id is a name for its caller's own use; 128 characters of it could tell a model anything.
    """
    told = Incident()
    told.CopyFrom(incident)
    for name in ("incident_id", "again", "source"):
        told.ClearField(name)
    return json_format.MessageToDict(told, preserving_proto_field_name=True)


def words_of(incident: Incident) -> str:
    """Returns all words that somebody wrote about it."""
    return "\n".join(filter(None, (incident.title, incident.service, incident.text)))


def _turn(iterations: int, counted: int) -> StateUpdate:
    return {"turn_count": 1, "iteration_count": iterations, "calls_counted": counted}


def _inconclusive(problem: str) -> StateUpdate:
    """Returns what an investigation comes to whose model gave no conclusion: what was gathered, for a person."""
    told = f"No conclusion could be had: {problem}"
    answer = {"answer": None, "no_cause_found": True, "confidence_score": 0.0}
    return {**answer, "validated": False, "confirmed": False, "error_message": told}


def _numbered(messages: Sequence[BaseMessage], history: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Returns new messages with ids by their place: those of a step that is run again are the same ones."""
    return [
        message.model_copy(update={"id": f"message-{number}"})
        for number, message in enumerate(messages, len(history) + 1)
    ]


def _taken(answer: AIMessage, kept: CheckedAnswer) -> list[ToolMessage]:
    """Answers the call that handed a conclusion in."""
    problems = problems_of(kept["evidence"])
    told = "\n".join(["taken; this evidence does not hold:", *problems]) if problems else "taken"
    return [ToolMessage(told, tool_call_id=call["id"] or "", name=call["name"]) for call in answer.tool_calls]
