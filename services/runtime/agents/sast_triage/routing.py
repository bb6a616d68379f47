"""Routers of `sast_triage`."""

from __future__ import annotations

from dataclasses import dataclass

from services.runtime.agents.code_review.code_tools import FETCH_CODE, canonical
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.routing.state import NEEDS_REVIEW, budget_spent
from services.runtime.routing.table import END, Choice, Router, Rule, State, StateUpdate, always

ANALYZE_ISSUE = "analyze_issue"
COMPREHENSIVE_EVALUATION = "comprehensive_evaluation"
TOOLS = (FETCH_CODE, ANALYZE_ISSUE)


@dataclass(frozen=True)
class DecisionFacts:
    """What is known once the model has decided."""

    iteration_count: int
    duplicate_call: bool
    error_attempts: int
    budget_spent: str
    tool: str
    tool_count: int


@dataclass(frozen=True)
class EvaluationFacts:
    """What is known once the evaluator has spoken."""

    iteration_count: int
    duplicate_call: bool
    error_attempts: int
    is_final: bool
    budget_spent: str


def decision_facts(state: State) -> DecisionFacts:
    """Takes the facts of `route_agent_decision` from state."""
    asked = state.get("requested") or {"tool": "", "arguments": {}}
    tool = asked["tool"]
    return DecisionFacts(
        iteration_count=state.get("iteration_count", 0),
        duplicate_call=tool in TOOLS and canonical(tool, asked["arguments"]) == state.get("last_call"),
        error_attempts=state.get("error_attempts", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        tool=tool,
        tool_count=int(bool(tool)),
    )


def evaluation_facts(state: State) -> EvaluationFacts:
    """Takes the facts of `route_after_evaluation` from state."""
    return EvaluationFacts(
        iteration_count=state.get("iteration_count", 0),
        duplicate_call=bool(state.get("duplicate_call")),
        error_attempts=state.get("error_attempts", 0),
        is_final=bool(state.get("is_final")),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
    )


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
) -> tuple[Router[DecisionFacts, SastTriagePolicy], Router[EvaluationFacts, SastTriagePolicy]]:
    """Returns the routers after `agent` and `comprehensive_evaluation`.

    A spent budget stops the run where going on would spend more: before a tool call, and before another round.
    """
    route_agent_decision = Router[DecisionFacts, SastTriagePolicy](
        "sast_triage.route_agent_decision",
        facts=decision_facts,
        policy=policy,
        rules=[
            Rule("max_iterations", COMPREHENSIVE_EVALUATION, lambda f, p: f.iteration_count >= p.max_iterations),
            Rule("duplicate_call", COMPREHENSIVE_EVALUATION, lambda f, _: f.duplicate_call, note_duplicate),
            Rule("error_recovery_limit", END, lambda f, p: f.error_attempts >= p.max_error_attempts, stop_unsettled),
            Rule("budget_exhausted", END, lambda f, _: f.budget_spent != "", stop_unsettled),
            Rule("tool_call", Choice(TOOLS, lambda f: f.tool), lambda f, _: f.tool in TOOLS),
            Rule("unknown_tool", "agent", lambda f, _: f.tool != "", count_error),
            Rule("no_tool_call", "agent", always, count_error),
        ],
    )
    route_after_evaluation = Router[EvaluationFacts, SastTriagePolicy](
        "sast_triage.route_after_evaluation",
        facts=evaluation_facts,
        policy=policy,
        rules=[
            Rule("max_iterations", END, lambda f, p: f.iteration_count >= p.max_iterations, stop),
            Rule("duplicate_call", END, lambda f, _: f.duplicate_call, stop),
            Rule("error_recovery_limit", END, lambda f, p: f.error_attempts >= p.max_error_attempts, stop),
            Rule("is_final", END, lambda f, _: f.is_final),
            Rule("budget_exhausted", END, lambda f, _: f.budget_spent != "", stop_unsettled),
            Rule("continue", "agent", always),
        ],
    )
    return route_agent_decision, route_after_evaluation
