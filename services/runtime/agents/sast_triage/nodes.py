"""Nodes of `sast_triage`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from signalbox.v1 import evaluator_pb2
from signalbox_routing.table import END, StateUpdate

from services.kit.models.prompts import prompt
from services.kit.tools.names import FETCH_CODE
from services.runtime.agents.code_review.analysis import analyze
from services.runtime.agents.code_review.answers import with_own_ids
from services.runtime.agents.code_review.calibration import Calibration
from services.runtime.agents.code_review.case import case_to_judge, finding_of
from services.runtime.agents.code_review.code_bank import BankLimits, bank_of, files_of, listing, new_code, stored
from services.runtime.agents.code_review.code_tools import CodeTools, canonical, own_arguments
from services.runtime.agents.code_review.draft import NEEDS_REVIEW as UNSETTLED
from services.runtime.agents.code_review.draft import verdict_word
from services.runtime.agents.code_review.finding import described
from services.runtime.agents.code_review.snippets import checked_finding
from services.runtime.agents.context_budget import ask_within
from services.runtime.agents.next_step import Answered, ask_for_step
from services.runtime.agents.quoting import MISSING_SHOWN, cut
from services.runtime.agents.refusals import NOT_RUN, TOOL_NAME_LENGTH, refusal, unknown_tool
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.routing import ANALYZE_ISSUE, TOOL_CALL, TOOLS, make_routers, repeats
from services.runtime.agents.sast_triage.state import Analysis, EvaluationResult, RequestedCall, SastTriageState
from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.evaluator_client import EvaluatorClient
from services.runtime.errors import ModelFailed, ModelRefused
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.state import COMPLETED, IN_PROGRESS, NEEDS_REVIEW, Status

SYMBOLS_SHOWN = 100
ANALYZE_FUNCTION: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": ANALYZE_ISSUE,
        "description": "Judges the finding from everything that was read.",
        "parameters": {
            "type": "object",
            "properties": {"focus": {"type": "string", "description": "What to look at most."}},
            "required": [],
        },
    },
}


class SastTriageNodes:
    """The nodes, with the services they call."""

    def __init__(
        self,
        *,
        code: CodeTools,
        evaluator: EvaluatorClient,
        model: ChatModel,
        policy: SastTriagePolicy,
        calibration: Calibration,
    ) -> None:
        self._code = code
        self._evaluator = evaluator
        self._model = model
        self._policy = policy
        self._calibration = calibration
        _, self._after_evaluation = make_routers(policy)
        self._bank_limits = BankLimits(policy.bank_fragments, policy.bank_chars)

    async def agent(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Asks the model for the next step; what it asks beyond one known tool is answered here.

        Once no tool may be called any more it is not asked: the table has what was read analysed.
        """
        history: list[BaseMessage] = list(state.get("messages") or ())
        finding = finding_of(state)
        if not history:
            finding = await checked_finding(self._code, context, state["source"], finding)
        if state.get("iteration_count", 0) >= self._policy.max_iterations:
            return {"requested": _requested(AIMessage("")), "duplicate_call": False}
        instructions = prompt(__package__, "decide", {"finding": described(finding)})
        summary = HumanMessage(prompt(__package__, "state", self._summary(state)))
        window = history[-self._policy.history_messages :]
        tools = [*await self._code.functions(context, [FETCH_CODE]), ANALYZE_FUNCTION]
        prompted = [SystemMessage(instructions), *window, summary]

        async def ask(told: list[BaseMessage]) -> Answered:
            most = self._policy.context_characters
            return await ask_within(self._model, "triage", [*prompted, *told], tools, most)

        try:
            answer, _ = await ask_for_step(ask, tools)
        except (ModelFailed, ModelRefused) as error:
            if not state.get("code_bank"):
                raise
            # An error attempt; the last of them leaves what was read to a person.
            answer = AIMessage(f"(no answer: {cut(error.message)})")
        answer = with_own_ids(answer, f"call-{len(history)}")
        requested = _requested(answer)
        return {
            **({"finding": finding.SerializeToString()} if not history else {}),
            "messages": [summary, answer, *_refusals(answer)],
            "requested": requested,
            "duplicate_call": repeats(requested, state.get("last_call")),
        }

    async def fetch_code(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Reads the code that the model asked for."""
        requested = state["requested"]
        found = await self._code.call(
            context, state["source"], FETCH_CODE, requested["arguments"], requested["tool_call_id"]
        )
        added = new_code(bank_of(state), found.fragments, self._bank_limits)
        return {
            **_answered(requested, found.text, failed=bool(found.error)),
            **stored(added),
            "fetched_files": _unseen(files_of(found.fragments), state.get("fetched_files") or ()),
            "found_symbols": _unseen(found.symbols, state.get("found_symbols") or ()),
        }

    async def analyze_issue(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Drafts a verdict from everything that was read; a limit brings the run here without being asked to."""
        requested = state["requested"]
        ordered = context.led_by == TOOL_CALL
        bank = state.get("code_bank") or []
        drafted = await analyze(
            self._model,
            finding_of(state),
            bank,
            feedback=_feedback(state, requested["arguments"] if ordered else {}),
            earlier_drafts=state.get("error_attempts", 0),
            attempts=self._policy.draft_attempts,
            max_code_chars=self._policy.prompt_code_chars,
        )
        told = _draft_text(drafted.draft) if drafted.draft else f"error: no usable verdict: {drafted.problem}"
        failed = drafted.draft is None
        return {
            **(_answered(requested, told, failed=failed) if ordered else _not_made(requested, told, failed=failed)),
            "analysis": Analysis(investigation_result=drafted.draft, problem=drafted.problem, code_seen=len(bank)),
            "drafted_verdicts": [drafted.draft["verdict"]] if drafted.draft else [],
        }

    async def comprehensive_evaluation(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Has the verdict judged; without one there is nothing that could be final.

        What is asked after it answers to the evaluation, so that no call repeats one from before it.
        """
        analysis = state.get("analysis")
        draft = analysis["investigation_result"] if analysis else None
        last_word = self._is_last_word(state)
        result, calibrated = _nothing_to_judge(analysis), False
        if draft is not None:
            answer = await self._judged(state, context, draft, last_word)
            result = _result(answer, draft)
            calibrated = self._calibration.covers(self._model.name, answer.model_call.model)
        return {
            "evaluation_result": result,
            "confidence_calibrated": calibrated,
            "is_final": result["is_final"],
            "status": _status(result, last_word),
            "last_call": "",
        }

    async def _judged(
        self, state: SastTriageState, context: NodeContext, draft: Mapping[str, Any], last_word: bool
    ) -> evaluator_pb2.EvaluateInvestigationResponse:
        return await self._evaluator.evaluate_investigation(
            context.run, **case_to_judge(state, draft), last_word=last_word
        )

    def _is_last_word(self, state: SastTriageState) -> bool:
        """Asks the table that decides afterwards: does the run end here even if nothing is final?"""
        return self._after_evaluation.decide({**state, "is_final": False}).destination == END

    def _summary(self, state: SastTriageState) -> dict[str, Any]:
        analysis, evaluated = state.get("analysis"), state.get("evaluation_result")
        draft = analysis["investigation_result"] if analysis else None
        return {
            "tool_calls": state.get("iteration_count", 0),
            "most_tool_calls": self._policy.max_iterations,
            "read": listing(state.get("code_bank") or []),
            "symbols": [cut(symbol, 100) for symbol in (state.get("found_symbols") or [])[-SYMBOLS_SHOWN:]],
            "analysis": {name: draft[name] for name in ("verdict", "confidence")} if draft else None,
            "evaluation": "not final" if evaluated else None,
            "missing": [cut(item, 500) for item in _missing(evaluated)[:MISSING_SHOWN]],
        }


def _requested(answer: AIMessage) -> RequestedCall:
    if not answer.tool_calls:
        return RequestedCall(tool="", arguments={}, tool_call_id="")
    first = answer.tool_calls[0]
    # A name that a model makes up ends up in the ledger; a NUL would not get past the database.
    name = first["name"].replace("\0", "")[:TOOL_NAME_LENGTH] or "(no name)"
    return RequestedCall(tool=name, arguments=own_arguments(first["args"]), tool_call_id=first["id"] or "")


def _refusals(answer: AIMessage) -> list[ToolMessage]:
    """Answers the calls that no node will: those of tools there are not, and all but the first."""
    refused = []
    for number, call in enumerate(answer.tool_calls):
        if call["name"] not in TOOLS:
            text = unknown_tool(call["name"], TOOLS)
        elif number:
            text = refusal(NOT_RUN, "one tool at a time; ask again if it is still wanted")
        else:
            continue
        refused.append(ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
    return refused


def _answered(requested: RequestedCall, text: str, *, failed: bool) -> StateUpdate:
    return {
        "messages": [ToolMessage(text, tool_call_id=requested["tool_call_id"], name=requested["tool"])],
        "iteration_count": 1,
        "last_call": canonical(requested["tool"], requested["arguments"]),
        "error_attempts": int(failed),
    }


def _not_made(requested: RequestedCall, text: str, *, failed: bool) -> StateUpdate:
    """Says what the analysis came to that nobody asked for, and that the call that was asked for was not made."""
    said = refusal(NOT_RUN, f"no calls are left; what was read has been analysed: {text}")
    answered = requested["tool"] in TOOLS  # the agent node has answered calls of any other
    messages = [ToolMessage(said, tool_call_id=requested["tool_call_id"], name=requested["tool"])] if answered else []
    return {"messages": messages, "error_attempts": int(failed)}


def _unseen(found: Iterable[str], known: Iterable[str]) -> list[str]:
    before = set(known)
    return [item for item in dict.fromkeys(found) if item not in before]


def _feedback(state: SastTriageState, arguments: Mapping[str, Any]) -> dict[str, Any]:
    focus, missing = arguments.get("focus"), _missing(state.get("evaluation_result"))
    told: dict[str, Any] = {"focus": cut(focus)} if isinstance(focus, str) and focus else {}
    return {**told, **({"of_the_verdict_before": [cut(item) for item in missing[:MISSING_SHOWN]]} if missing else {})}


def _missing(evaluated: EvaluationResult | None) -> list[str]:
    return [*evaluated["exploration_gaps"], *evaluated["problems"]] if evaluated else []


def _draft_text(draft: Mapping[str, Any]) -> str:
    return f"verdict {draft['verdict']} ({draft['confidence']:.2f}): {draft['justification']}"


def _result(answer: evaluator_pb2.EvaluateInvestigationResponse, draft: Mapping[str, Any]) -> EvaluationResult:
    return EvaluationResult(
        is_final=answer.is_final,
        verdict=verdict_word(answer.verdict) if answer.is_final else UNSETTLED,
        confidence=answer.confidence,
        justification=answer.justification,
        exploration_gaps=list(answer.exploration_gaps),
        problems=[problem.message for problem in answer.problems],
        evidence=list(draft["claims"]) if answer.is_final else [],
    )


def _nothing_to_judge(analysis: Analysis | None) -> EvaluationResult:
    problem = analysis["problem"] if analysis else ""
    said = f"The analysis gave no usable verdict: {problem}" if problem else "No analysis was made."
    return EvaluationResult(
        is_final=False,
        verdict=UNSETTLED,
        confidence=0.0,
        justification=said,
        exploration_gaps=["there is no verdict to judge; call analyze_issue"],
        problems=[],
        evidence=[],
    )


def _status(result: EvaluationResult, last_word: bool) -> Status:
    if result["is_final"] and result["verdict"] != UNSETTLED:
        return COMPLETED
    return NEEDS_REVIEW if result["is_final"] or last_word else IN_PROGRESS
