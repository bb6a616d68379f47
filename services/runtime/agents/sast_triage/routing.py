"""Routers of `sast_triage`."""

from __future__ import annotations

from dataclasses import dataclass

from signalbox_routing.table import END, Router, Rule, State, StateUpdate, either, named_by
from signalbox_routing.terms import Always, terms

from services.kit.tools.names import FETCH_CODE
from services.runtime.agents.code_review.code_tools import canonical
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.agents.sast_triage.state import RequestedCall
from services.runtime.routing.state import NEEDS_REVIEW, budget_spent

ANALYZE_ISSUE = "analyze_issue"
COMPREHENSIVE_EVALUATION = "comprehensive_evaluation"
TOOLS = (FETCH_CODE, ANALYZE_ISSUE)
TOOL_CALL = "tool_call"


@dataclass(frozen=True)
class DecisionFacts:
    """What is known once the model has decided."""

    iteration_count: int
    duplicate_call: bool
    error_attempts: int
    budget_spent: str
    tool: str
    tool_count: int
    unanalysed_fragments: int = 0


@dataclass(frozen=True)
class TriageVerdictFacts:
    """What is known once the evaluator has spoken."""

    iteration_count: int
    duplicate_call: bool
    error_attempts: int
    is_final: bool
    budget_spent: str


def decision_facts(state: State) -> DecisionFacts:
    """Takes the facts of `route_agent_decision` from state."""
    requested, analysis = state.get("requested"), state.get("analysis")
    tool = requested["tool"] if requested else ""
    return DecisionFacts(
        iteration_count=state.get("iteration_count", 0),
        duplicate_call=bool(state.get("duplicate_call")),
        error_attempts=state.get("error_attempts", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        tool=tool,
        tool_count=int(bool(tool)),
        unanalysed_fragments=len(state.get("code_bank") or ()) - (analysis.get("code_seen", 0) if analysis else 0),
    )


def evaluation_facts(state: State) -> TriageVerdictFacts:
    """Takes the facts of `route_after_evaluation` from state."""
    return TriageVerdictFacts(
        iteration_count=state.get("iteration_count", 0),
        duplicate_call=bool(state.get("duplicate_call")),
        error_attempts=state.get("error_attempts", 0),
        is_final=bool(state.get("is_final")),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
    )


def repeats(requested: RequestedCall, last_call: str | None) -> bool:
    """Says whether the model asks for what it has asked for last: the same tool with the same arguments."""
    return requested["tool"] in TOOLS and canonical(requested["tool"], requested["arguments"]) == last_call


def stop(rule: str) -> StateUpdate:
    """Notes which breaker ended the run; the evaluation before it has set the status."""
    return {"stop_reason": rule, "is_final": True}


def stop_unsettled(rule: str) -> StateUpdate:
    """Notes which breaker ended the run before anything could be settled."""
    return {**stop(rule), "status": NEEDS_REVIEW}


def note_duplicate(_rule: str) -> StateUpdate:
    """Notes that the model repeats itself: the evaluation that follows is the last word."""
    return {"duplicate_call": True}


def count_error(_rule: str) -> StateUpdate:
    """Counts an error attempt."""
    return {"error_attempts": 1}


def make_routers(
    policy: SastTriagePolicy,
) -> tuple[Router[DecisionFacts, SastTriagePolicy], Router[TriageVerdictFacts, SastTriagePolicy]]:
    """Returns the routers after `agent` and `comprehensive_evaluation`.

    What was gathered is analysed a last time before a limit ends the run: work done is never thrown away. A call that
    repeats the last one is the end of the gathering too, and is analysed when there is anything new to analyse.
    A spent budget stops the run where going on would spend more: before a tool call, and before another round.
    """
    d, e, p = terms(DecisionFacts), terms(TriageVerdictFacts), terms(SastTriagePolicy)
    last_step = either(ANALYZE_ISSUE, when=d.unanalysed_fragments > 0, otherwise=COMPREHENSIVE_EVALUATION)
    route_agent_decision = Router[DecisionFacts, SastTriagePolicy](
        "sast_triage.route_agent_decision",
        facts=decision_facts,
        policy=policy,
        rules=[
            Rule("max_iterations", to=ANALYZE_ISSUE, when=d.iteration_count >= p.max_iterations),
            Rule("duplicate_call", to=last_step, when=d.duplicate_call, then=note_duplicate),
            Rule("error_recovery_limit", to=END, when=d.error_attempts >= p.max_error_attempts, then=stop_unsettled),
            Rule("budget_exhausted", to=END, when=d.budget_spent != "", then=stop_unsettled),
            Rule(TOOL_CALL, to=named_by(d.tool, TOOLS), when=d.tool.is_in(TOOLS)),
            Rule("unknown_tool", to="agent", when=d.tool != "", then=count_error),
            Rule("no_tool_call", to="agent", when=Always(), then=count_error),
        ],
    )
    route_after_evaluation = Router[TriageVerdictFacts, SastTriagePolicy](
        "sast_triage.route_after_evaluation",
        facts=evaluation_facts,
        policy=policy,
        rules=[
            Rule("max_iterations", to=END, when=e.iteration_count >= p.max_iterations, then=stop),
            Rule("duplicate_call", to=END, when=e.duplicate_call, then=stop),
            Rule("error_recovery_limit", to=END, when=e.error_attempts >= p.max_error_attempts, then=stop),
            Rule("is_final", to=END, when=e.is_final),
            Rule("budget_exhausted", to=END, when=e.budget_spent != "", then=stop_unsettled),
            Rule("continue", to="agent", when=Always()),
        ],
    )
    return route_agent_decision, route_after_evaluation
