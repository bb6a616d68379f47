"""Nodes of `sast_triage`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from signalbox.v1 import sast_pb2

from services.runtime.agents.code_review.analysis import analyze
from services.runtime.agents.code_review.answers import with_own_ids
from services.runtime.agents.code_review.code_bank import BankLimits, as_protos, files_of, listing, new_code
from services.runtime.agents.code_review.code_tools import FETCH_CODE, CodeTools, canonical, own_arguments
from services.runtime.agents.code_review.draft import NEEDS_REVIEW as UNSETTLED
from services.runtime.agents.code_review.draft import as_proto, verdict_word
from services.runtime.agents.code_review.finding import describe, quoted
from services.runtime.agents.code_review.templates import template
from services.runtime.agents.prompt_messages import prompt_messages
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.routing import ANALYZE_ISSUE, TOOLS
from services.runtime.agents.sast_triage.state import Analysis, EvaluationResult, RequestedCall, SastTriageState
from services.runtime.chat_model import ChatModel
from services.runtime.evaluator_client import EvaluatorClient
from services.runtime.routing.state import COMPLETED, IN_PROGRESS, NEEDS_REVIEW, Status, budget_spent
from services.runtime.routing.table import StateUpdate
from services.runtime.run_context import NodeContext

TOOL_NAME_LENGTH = 64
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
        self, *, code: CodeTools, evaluator: EvaluatorClient, model: ChatModel, policy: SastTriagePolicy
    ) -> None:
        self._code = code
        self._evaluator = evaluator
        self._model = model
        self._policy = policy
        self._bank_limits = BankLimits(policy.bank_fragments, policy.bank_chars)

    async def agent(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Asks the model for the next step; what it asks beyond one known tool is answered here."""
        history: list[BaseMessage] = list(state.get("messages") or ())
        instructions = template(__package__, "decide").substitute(finding=describe(_finding(state)))
        asked = HumanMessage(self._summary(state))
        window = prompt_messages(history[-self._policy.history_messages :])
        tools = [*await self._code.functions(context, [FETCH_CODE]), ANALYZE_FUNCTION]
        answer, _ = await self._model.ask("triage", [SystemMessage(instructions), *window, asked], tools)
        answer = with_own_ids(answer, f"call-{len(history)}")
        return {"messages": [asked, answer, *_refusals(answer)], "requested": _requested(answer)}

    async def fetch_code(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Reads the code that the model asked for."""
        asked = state["requested"]
        found = await self._code.call(context, state["source"], FETCH_CODE, asked["arguments"], asked["tool_call_id"])
        added = new_code(state.get("code_bank") or [], found.fragments, self._bank_limits)
        return {
            **_answered(asked, found.text, failed=bool(found.error)),
            "code_bank": added,
            "fetched_files": _unseen(files_of(found.fragments), state.get("fetched_files") or ()),
            "found_symbols": _unseen(found.symbols, state.get("found_symbols") or ()),
        }

    async def analyze_issue(self, state: SastTriageState, _context: NodeContext) -> StateUpdate:
        """Drafts a verdict from everything that was read."""
        asked = state["requested"]
        drafted = await analyze(
            self._model,
            _finding(state),
            state.get("code_bank") or [],
            feedback=_feedback(state, asked["arguments"]),
            attempts=self._policy.draft_attempts,
            max_code_chars=self._policy.prompt_code_chars,
        )
        told = _draft_text(drafted.draft) if drafted.draft else f"error: no usable verdict: {drafted.problem}"
        return {
            **_answered(asked, told, failed=drafted.draft is None),
            "analysis": Analysis(investigation_result=drafted.draft, problem=drafted.problem),
        }

    async def comprehensive_evaluation(self, state: SastTriageState, context: NodeContext) -> StateUpdate:
        """Has the verdict judged; without one there is nothing that could be final."""
        analysis = state.get("analysis")
        draft = analysis["investigation_result"] if analysis else None
        last_word = self._is_last_word(state)
        result = _nothing_to_judge(analysis) if draft is None else await self._judged(state, context, draft, last_word)
        return {"evaluation_result": result, "is_final": result["is_final"], "status": _status(result, last_word)}

    async def _judged(
        self, state: SastTriageState, context: NodeContext, draft: Mapping[str, Any], last_word: bool
    ) -> EvaluationResult:
        source = state["source"]
        answer = await self._evaluator.evaluate_investigation(
            context.run,
            _finding(state),
            sast_pb2.CodeSource(**source),
            as_proto(draft, source["commit"]),
            as_protos(state.get("code_bank") or []),
            last_word=last_word,
        )
        return EvaluationResult(
            is_final=answer.is_final,
            verdict=verdict_word(answer.verdict) if answer.is_final else UNSETTLED,
            confidence=answer.confidence,
            justification=answer.justification,
            exploration_gaps=list(answer.exploration_gaps),
            problems=[problem.message for problem in answer.problems],
            evidence=list(draft["claims"]) if answer.is_final else [],
        )

    def _is_last_word(self, state: SastTriageState) -> bool:
        return (
            state.get("iteration_count", 0) >= self._policy.max_iterations
            or bool(state.get("duplicate_call"))
            or state.get("error_attempts", 0) >= self._policy.max_error_attempts
            or budget_spent(state.get("spend"), state.get("budget")) != ""
        )

    def _summary(self, state: SastTriageState) -> str:
        analysis, evaluated = state.get("analysis"), state.get("evaluation_result")
        draft = analysis["investigation_result"] if analysis else None
        missing = [*evaluated["exploration_gaps"], *evaluated["problems"]] if evaluated else []
        return template(__package__, "state").substitute(
            iterations=state.get("iteration_count", 0),
            max_iterations=self._policy.max_iterations,
            read=listing(state.get("code_bank") or []),
            symbols=", ".join(quoted(symbol, 100) for symbol in state.get("found_symbols") or ()) or "none",
            analysis=f"{draft['verdict']} ({draft['confidence']:.2f})" if draft else "none yet",
            evaluation="not final" if evaluated else "none yet",
            missing="\n".join(f"- {quoted(item, 500)}" for item in missing) or "(nothing is known to be missing)",
        )


def _finding(state: SastTriageState) -> sast_pb2.Finding:
    return sast_pb2.Finding.FromString(state["finding"])


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
            text = f"error: unknown_tool: there is no tool {quoted(call['name'], 64)}; there are {', '.join(TOOLS)}"
        elif number:
            text = "error: not_run: one tool at a time; ask again if it is still wanted"
        else:
            continue
        refused.append(ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
    return refused


def _answered(asked: RequestedCall, text: str, *, failed: bool) -> StateUpdate:
    return {
        "messages": [ToolMessage(text, tool_call_id=asked["tool_call_id"], name=asked["tool"])],
        "iteration_count": 1,
        "last_call": canonical(asked["tool"], asked["arguments"]),
        "error_attempts": int(failed),
    }


def _unseen(found: Iterable[str], known: Iterable[str]) -> list[str]:
    before = set(known)
    return [item for item in dict.fromkeys(found) if item not in before]


def _feedback(state: SastTriageState, arguments: Mapping[str, Any]) -> str:
    evaluated = state.get("evaluation_result")
    missing = [*evaluated["exploration_gaps"], *evaluated["problems"]] if evaluated else []
    focus = arguments.get("focus")
    lines = [f"- focus: {quoted(focus)}"] if isinstance(focus, str) and focus else []
    lines += [f"- of the verdict before: {quoted(item)}" for item in missing]
    return "\n".join(["## Feedback", *lines]) if lines else ""


def _draft_text(draft: Mapping[str, Any]) -> str:
    return f"verdict {draft['verdict']} ({draft['confidence']:.2f}): {draft['justification']}"


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
