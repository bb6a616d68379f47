"""Routers of `sast_investigation`."""

from __future__ import annotations

from dataclasses import dataclass

from signalbox_routing.table import END, Router, Rule, State, StateUpdate
from signalbox_routing.terms import Always, terms

from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.routing.state import NEEDS_REVIEW, budget_spent

APPROVED = "approved"
NEEDS_RESEARCH = "needs_research"
NEEDS_REANALYSIS = "needs_reanalysis"


@dataclass(frozen=True)
class DraftVerdictFacts:
    """What is known once the evaluator has spoken; `iteration` counts from 1."""

    outcome: str
    rejection_streak: int
    no_progress_streak: int
    iteration: int
    budget_spent: str
    fragments: int


@dataclass(frozen=True)
class IncrementFacts:
    """What is known when another round begins."""

    outcome: str
    iteration: int


def evaluation_facts(state: State) -> DraftVerdictFacts:
    """Takes the facts of `route_after_evaluation` from state."""
    return DraftVerdictFacts(
        outcome=_outcome(state),
        rejection_streak=state.get("rejection_streak", 0),
        no_progress_streak=state.get("no_progress_streak", 0),
        iteration=state.get("iteration_count", 0) + 1,
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        fragments=len(state.get("code_bank") or ()),
    )


def increment_facts(state: State) -> IncrementFacts:
    """Takes the facts of `route_after_increment` from state."""
    return IncrementFacts(outcome=_outcome(state), iteration=state.get("iteration_count", 0) + 1)


def _outcome(state: State) -> str:
    critique = state.get("critique")
    return critique["outcome"] if critique else NEEDS_REANALYSIS


def stop(rule: str) -> StateUpdate:
    """Notes which breaker ended the run."""
    return {"stop_reason": rule, "status": NEEDS_REVIEW}


def make_routers(
    policy: SastInvestigationPolicy,
) -> tuple[Router[DraftVerdictFacts, SastInvestigationPolicy], Router[IncrementFacts, SastInvestigationPolicy]]:
    """Returns the routers after `evaluation` and `increment`."""
    breaker = "circuit_breaker"
    f, i, p = terms(DraftVerdictFacts), terms(IncrementFacts), terms(SastInvestigationPolicy)
    after_evaluation = Router[DraftVerdictFacts, SastInvestigationPolicy](
        "sast_investigation.route_after_evaluation",
        facts=evaluation_facts,
        policy=policy,
        rules=[
            Rule("approved", to=END, when=f.outcome == APPROVED),
            Rule("rejection_streak", to=breaker, when=f.rejection_streak >= p.max_rejection_streak, then=stop),
            Rule("no_progress", to=breaker, when=f.no_progress_streak >= p.max_no_progress_streak, then=stop),
            Rule("iteration_limit", to=breaker, when=f.iteration >= p.max_iterations, then=stop),
            Rule("budget_exhausted", to=breaker, when=f.budget_spent != "", then=stop),
            Rule("needs_reanalysis", to="increment", when=f.outcome != NEEDS_RESEARCH),
            Rule("needs_research", to="increment", when=Always()),
        ],
    )
    after_increment = Router[IncrementFacts, SastInvestigationPolicy](
        "sast_investigation.route_after_increment",
        facts=increment_facts,
        policy=policy,
        rules=[
            Rule("reanalyze", to="analysis", when=i.outcome != NEEDS_RESEARCH),
            Rule("research_more", to="research", when=Always()),
        ],
    )
    return after_evaluation, after_increment
