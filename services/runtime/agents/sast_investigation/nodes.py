"""Nodes of `sast_investigation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.v1 import evaluator_pb2
from signalbox_routing.table import StateUpdate

from services.runtime.agents.code_review.analysis import analyze
from services.runtime.agents.code_review.calibration import Calibration
from services.runtime.agents.code_review.case import case_to_judge, finding_of
from services.runtime.agents.code_review.code_bank import bank_of, stored
from services.runtime.agents.code_review.code_tools import CodeTools
from services.runtime.agents.code_review.draft import NEEDS_REVIEW as UNSETTLED
from services.runtime.agents.code_review.finding import language_of
from services.runtime.agents.code_review.snippets import checked_finding
from services.runtime.agents.quoting import MISSING_SHOWN, cut
from services.runtime.agents.sast_investigation.checklist import Checklists
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.research import Research
from services.runtime.agents.sast_investigation.routing import APPROVED, NEEDS_REANALYSIS, NEEDS_RESEARCH
from services.runtime.agents.sast_investigation.state import Critique, SastInvestigationState
from services.runtime.agents.sast_investigation.task import ResearchTask
from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.evaluator_client import EvaluatorClient, outcome_word
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.state import COMPLETED, IN_PROGRESS, NEEDS_REVIEW, NOTHING_SPENT


class SastInvestigationNodes:
    """The nodes, with the services they call."""

    def __init__(
        self,
        *,
        code: CodeTools,
        research: Research,
        analysis_model: ChatModel,
        evaluator: EvaluatorClient,
        checklists: Checklists,
        policy: SastInvestigationPolicy,
        calibration: Calibration,
    ) -> None:
        self._code = code
        self._research = research
        self._analysis_model = analysis_model
        self._evaluator = evaluator
        self._checklists = checklists
        self._policy = policy
        self._calibration = calibration

    async def research(self, state: SastInvestigationState, context: NodeContext) -> StateUpdate:
        """Gathers code for the analysis, until nothing more is wanted or a limit is reached."""
        finding = finding_of(state)
        if not state.get("research_ended"):
            finding = await checked_finding(self._code, context, state["source"], finding)
        known = state.get("fetched_files") or ()
        gathered = await self._research.gather(
            ResearchTask(
                node=context,
                finding=finding,
                source=state["source"],
                iteration=state.get("iteration_count", 0) + 1,
                model_calls=self._model_calls(state),
                checklist=self._checklist(state),
                feedback=_feedback(state),
                code_bank=bank_of(state),
                tool_call_history=state.get("tool_call_history") or (),
                spend=state.get("spend") or NOTHING_SPENT,
                budget=state["budget"],
            )
        )
        return {
            **({} if state.get("research_ended") else {"finding": finding.SerializeToString()}),
            **stored(gathered.code_bank),
            "fetched_files": [file for file in gathered.fetched_files if file not in known],
            "tool_call_history": gathered.tool_call_history,
            "research_ended": gathered.ended,
            "spend": {**NOTHING_SPENT, "wall_time_s": gathered.elapsed_before_s},
        }

    async def analysis(self, state: SastInvestigationState, _context: NodeContext) -> StateUpdate:
        """Drafts a verdict from the code bank; without a usable draft, says what was wrong with it."""
        drafted = await analyze(
            self._analysis_model,
            finding_of(state),
            state.get("code_bank") or [],
            checklist=self._checklist(state),
            feedback=_feedback(state),
            earlier_drafts=state.get("iteration_count", 0),
            attempts=self._policy.draft_attempts,
            max_code_chars=self._policy.prompt_code_chars,
        )
        verdicts = [drafted.draft["verdict"]] if drafted.draft else []
        return {"draft": drafted.draft, "draft_problem": drafted.problem, "drafted_verdicts": verdicts}

    async def evaluation(self, state: SastInvestigationState, context: NodeContext) -> StateUpdate:
        """Has the draft judged, and counts rejections in a row and rounds of research without new code.

        New code starts the count of rejections anew: what was said of the code before need not hold of more of it.
        """
        draft = state.get("draft")
        critique, calibrated = _no_draft(state), False
        if draft is not None:
            answer = await self._judged(state, context, draft)
            critique = Critique(
                outcome=outcome_word(answer.outcome), missing=list(answer.missing), reason=answer.reason
            )
            calibrated = self._calibration.covers(self._analysis_model.name, answer.model_call.model)
        before = state.get("critique")
        researched = before is None or before["outcome"] == NEEDS_RESEARCH
        fragments = len(state.get("code_bank") or ())
        progressed = fragments > state.get("code_seen", 0)
        rejections = 0 if progressed else state.get("rejection_streak", 0)
        fruitless = 0 if progressed else state.get("no_progress_streak", 0) + researched
        # That nothing more is found says why the run ends; that it was rejected once more would hide it.
        in_vain = fruitless >= self._policy.max_no_progress_streak
        rejected = critique["outcome"] != APPROVED and not in_vain
        verdict = draft["verdict"] if draft and critique["outcome"] == APPROVED else UNSETTLED
        return {
            "critique": critique,
            "confidence_calibrated": calibrated,
            "rejection_streak": rejections + rejected,
            "no_progress_streak": fruitless,
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

    async def _judged(
        self, state: SastInvestigationState, context: NodeContext, draft: Mapping[str, Any]
    ) -> evaluator_pb2.CritiqueVerdictResponse:
        return await self._evaluator.critique_verdict(context.run, **case_to_judge(state, draft))

    def _model_calls(self, state: SastInvestigationState) -> int:
        """Returns how many calls research may make: what the budget leaves beside an analysis and an evaluation."""
        allowed, spend, budget = self._policy.research_model_calls, state.get("spend"), state.get("budget")
        if not spend or not budget or not budget["model_calls"]:
            return allowed
        return min(allowed, max(1, budget["model_calls"] - spend["model_calls"] - 2))

    def _checklist(self, state: SastInvestigationState) -> dict[str, Any]:
        finding = finding_of(state)
        return self._checklists.select(finding).shown(language_of(finding.location.file))


def _no_draft(state: SastInvestigationState) -> Critique:
    problem = state.get("draft_problem", "")
    reason = f"The analysis gave no usable verdict: {problem}"
    return Critique(outcome=NEEDS_REANALYSIS, missing=[], reason=reason)


def _status(outcome: str, verdict: str) -> str:
    if outcome != APPROVED:
        return IN_PROGRESS
    return NEEDS_REVIEW if verdict == UNSETTLED else COMPLETED


def _feedback(state: SastInvestigationState) -> dict[str, Any]:
    """Returns what the evaluator said of the draft before, as data of a prompt; nothing in the first round."""
    critique, draft = state.get("critique"), state.get("draft")
    if not critique:
        return {}
    told = {"outcome": critique["outcome"], "reason": cut(critique["reason"])}
    judged = {"of_verdict": draft["verdict"], "justification": cut(draft["justification"])} if draft else {}
    return {**told, **judged, "missing": [cut(item) for item in critique["missing"][:MISSING_SHOWN]]}
