"""Nodes of `sast_investigation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.v1 import sast_pb2

from services.runtime.agents.code_review.analysis import analyze
from services.runtime.agents.code_review.code_bank import as_protos
from services.runtime.agents.code_review.draft import NEEDS_REVIEW as UNSETTLED
from services.runtime.agents.code_review.draft import as_proto
from services.runtime.agents.code_review.finding import language_of, quoted
from services.runtime.agents.sast_investigation.checklist import Checklists
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.research import Research
from services.runtime.agents.sast_investigation.routing import APPROVED, NEEDS_REANALYSIS, NEEDS_RESEARCH
from services.runtime.agents.sast_investigation.state import Critique, SastInvestigationState
from services.runtime.agents.sast_investigation.task import ResearchTask
from services.runtime.chat_model import ChatModel
from services.runtime.evaluator_client import EvaluatorClient, outcome_word
from services.runtime.routing.state import COMPLETED, IN_PROGRESS, NEEDS_REVIEW, NOTHING_SPENT
from services.runtime.routing.table import StateUpdate
from services.runtime.run_context import NodeContext


class SastInvestigationNodes:
    """The nodes, with the services they call."""

    def __init__(
        self,
        *,
        research: Research,
        analysis_model: ChatModel,
        evaluator: EvaluatorClient,
        checklists: Checklists,
        policy: SastInvestigationPolicy,
    ) -> None:
        self._research = research
        self.research_graph = research.graph
        self._analysis_model = analysis_model
        self._evaluator = evaluator
        self._checklists = checklists
        self._policy = policy

    async def research(self, state: SastInvestigationState, context: NodeContext) -> StateUpdate:
        """Gathers code for the analysis, until nothing more is wanted or a limit is reached."""
        known = state.get("fetched_files") or ()
        gathered = await self._research.gather(
            ResearchTask(
                node=context,
                finding=_finding(state),
                source=state["source"],
                iteration=state.get("iteration_count", 0) + 1,
                model_calls=self._model_calls(state),
                checklist=self._checklist(state),
                feedback=_feedback(state),
                code_bank=state.get("code_bank") or (),
                tool_call_history=state.get("tool_call_history") or (),
                spend=state.get("spend") or NOTHING_SPENT,
                budget=state["budget"],
            )
        )
        return {
            "code_bank": gathered.code_bank,
            "fetched_files": [file for file in gathered.fetched_files if file not in known],
            "tool_call_history": gathered.tool_call_history,
            "research_ended": gathered.ended,
            "spend": {**NOTHING_SPENT, "wall_time_s": gathered.elapsed_before_s},
        }

    async def analysis(self, state: SastInvestigationState, _context: NodeContext) -> StateUpdate:
        """Drafts a verdict from the code bank; without a usable draft, says what was wrong with it."""
        drafted = await analyze(
            self._analysis_model,
            _finding(state),
            state.get("code_bank") or [],
            checklist=self._checklist(state),
            feedback=_feedback(state),
            attempts=self._policy.draft_attempts,
            max_code_chars=self._policy.prompt_code_chars,
        )
        return {"draft": drafted.draft, "draft_problem": drafted.problem}

    async def evaluation(self, state: SastInvestigationState, context: NodeContext) -> StateUpdate:
        """Has the draft judged, and counts rejections and rounds without new code."""
        draft = state.get("draft")
        critique = _no_draft(state) if draft is None else await self._judged(state, context, draft)
        rejected = critique["outcome"] not in (APPROVED, NEEDS_RESEARCH)
        fragments = len(state.get("code_bank") or ())
        progressed = fragments > state.get("code_seen", 0)
        verdict = draft["verdict"] if draft and critique["outcome"] == APPROVED else UNSETTLED
        return {
            "critique": critique,
            "rejection_streak": state.get("rejection_streak", 0) + 1 if rejected else 0,
            "no_progress_streak": 0 if progressed else state.get("no_progress_streak", 0) + 1,
            "code_seen": fragments,
            "verdict": verdict,
            "status": _status(critique["outcome"], verdict),
        }

    async def increment(self, _state: SastInvestigationState, _context: NodeContext) -> StateUpdate:
        """Begins another round."""
        return {"iteration_count": 1}

    async def circuit_breaker(self, _state: SastInvestigationState, _context: NodeContext) -> StateUpdate:
        """Leaves the finding to a person."""
        return {"verdict": UNSETTLED, "status": NEEDS_REVIEW}

    async def _judged(self, state: SastInvestigationState, context: NodeContext, draft: Mapping[str, Any]) -> Critique:
        source = state["source"]
        answer = await self._evaluator.critique_verdict(
            context.run,
            _finding(state),
            sast_pb2.CodeSource(**source),
            as_proto(draft, source["commit"]),
            as_protos(state.get("code_bank") or []),
        )
        return Critique(outcome=outcome_word(answer.outcome), missing=list(answer.missing), reason=answer.reason)

    def _model_calls(self, state: SastInvestigationState) -> int:
        """Returns how many calls research may make: what the budget leaves beside an analysis and an evaluation."""
        allowed, spend, budget = self._policy.research_model_calls, state.get("spend"), state.get("budget")
        if not spend or not budget or not budget["model_calls"]:
            return allowed
        return min(allowed, max(1, budget["model_calls"] - spend["model_calls"] - 2))

    def _checklist(self, state: SastInvestigationState) -> str:
        finding = _finding(state)
        return self._checklists.select(finding).as_prompt(language_of(finding.location.file))


def _finding(state: SastInvestigationState) -> sast_pb2.Finding:
    return sast_pb2.Finding.FromString(state["finding"])


def _no_draft(state: SastInvestigationState) -> Critique:
    problem = state.get("draft_problem", "")
    reason = f"The analysis gave no usable verdict: {problem}"
    return Critique(outcome=NEEDS_REANALYSIS, missing=[], reason=reason)


def _status(outcome: str, verdict: str) -> str:
    if outcome != APPROVED:
        return IN_PROGRESS
    return NEEDS_REVIEW if verdict == UNSETTLED else COMPLETED


def _feedback(state: SastInvestigationState) -> str:
    """Returns what the evaluator said of the draft before, as a section of a prompt; nothing in the first round."""
    critique, draft = state.get("critique"), state.get("draft")
    if not critique:
        return ""
    lines = ["## Feedback", f"The evaluator did not approve ({critique['outcome']}): {quoted(critique['reason'])}"]
    if draft:
        lines.append(f"of the verdict {draft['verdict']}: {quoted(draft['justification'])}")
    return "\n".join([*lines, *(f"- {quoted(item)}" for item in critique["missing"])])
