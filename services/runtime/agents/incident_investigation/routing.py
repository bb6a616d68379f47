"""Routers of `incident_investigation`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage
from signalbox_routing.table import END, Router, Rule, State, StateUpdate
from signalbox_routing.terms import Always, terms

from services.runtime.agents.incident_investigation.policy import IncidentPolicy
from services.runtime.agents.incident_investigation.state import INITIAL
from services.runtime.agents.screening import ALLOWED, NO_VERDICT, ScreenFacts, screen_facts
from services.runtime.routing.state import COMPLETED, FAILED, NEEDS_REVIEW, budget_spent

AGENT: Final = "agent"
TOOLS: Final = "tools"
VALIDATION: Final = "validation"


@dataclass(frozen=True)
class InvestigatorFacts:
    """What is known once the model has spoken."""

    model_failed: bool
    iteration_count: int
    turn_count: int
    budget_spent: str
    tool_count: int
    no_cause_found: bool
    confidence: float
    validated: bool
    phase: str


@dataclass(frozen=True)
class ValidationFacts:
    """What is known once an answer has been validated."""

    confirmed: bool
    iteration_count: int
    turn_count: int
    budget_spent: str
    tool_count: int
    phase: str


def agent_facts(state: State) -> InvestigatorFacts:
    """Takes the facts of `route_after_agent` from state."""
    return InvestigatorFacts(
        model_failed=bool(state.get("model_failed")),
        iteration_count=state.get("iteration_count", 0),
        turn_count=state.get("turn_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        tool_count=_tool_count(state),
        no_cause_found=bool(state.get("no_cause_found")),
        confidence=state.get("confidence_score", 0.0),
        validated=bool(state.get("validated")),
        phase=state.get("investigation_phase", INITIAL),
    )


def validation_facts(state: State) -> ValidationFacts:
    """Takes the facts of `route_after_validation` from state."""
    return ValidationFacts(
        confirmed=bool(state.get("confirmed")),
        iteration_count=state.get("iteration_count", 0),
        turn_count=state.get("turn_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        tool_count=_tool_count(state),
        phase=state.get("investigation_phase", INITIAL),
    )


def _tool_count(state: State) -> int:
    """Returns how many calls wait for their tools: those of the last message."""
    messages = state.get("messages") or []
    return len(messages[-1].tool_calls) if messages and isinstance(messages[-1], AIMessage) else 0


def block(rule: str) -> StateUpdate:
    """Notes that the guard has blocked the incident's words; nothing was looked at."""
    return {"stop_reason": rule, "status": COMPLETED, "investigation_status": "completed"}


def fail(rule: str) -> StateUpdate:
    """Notes which rule failed the run."""
    return {"stop_reason": rule, "status": FAILED, "investigation_status": "failed"}


def review(rule: str) -> StateUpdate:
    """Notes by which rule the run ended with something left for a person."""
    return {"stop_reason": rule, "status": NEEDS_REVIEW, "investigation_status": "completed"}


def complete(_rule: str) -> StateUpdate:
    """Ends the run with its answer."""
    return {"status": COMPLETED, "investigation_status": "completed"}


def make_routers(
    policy: IncidentPolicy,
) -> tuple[
    Router[ScreenFacts, IncidentPolicy],
    Router[InvestigatorFacts, IncidentPolicy],
    Router[ValidationFacts, IncidentPolicy],
]:
    """Returns the routers after `screen_incident`, `agent` and `validation`.

    An answer that names a cause is validated whatever limit it came at, and ends the run confirmed or for a person.
    """
    s, f, v, p = terms(ScreenFacts), terms(InvestigatorFacts), terms(ValidationFacts), terms(IncidentPolicy)
    to_be_validated = (f.tool_count == 0) & ~f.no_cause_found & ~f.validated
    over = (f.iteration_count > p.max_iterations) | (f.turn_count > p.max_turns)
    over_by_then = (v.iteration_count > p.max_iterations) | (v.turn_count > p.max_turns)
    after_screen = Router[ScreenFacts, IncidentPolicy](
        "incident_investigation.route_after_screen",
        facts=screen_facts,
        policy=policy,
        rules=[
            Rule("guard_unavailable", to=END, when=s.screening.is_in(NO_VERDICT), then=fail),
            # Whatever is not plainly let through is blocked.
            Rule("blocked", to=END, when=s.screening != ALLOWED, then=block),
            Rule("allowed", to=AGENT, when=Always()),
        ],
    )
    after_agent = Router[InvestigatorFacts, IncidentPolicy](
        "incident_investigation.route_after_agent",
        facts=agent_facts,
        policy=policy,
        rules=[
            Rule("model_failed", to=END, when=f.model_failed, then=fail),
            Rule("iteration_limit", to=END, when=over & ~to_be_validated, then=review),
            Rule("budget_exhausted", to=END, when=f.budget_spent != "", then=review),
            Rule("tool_calls", to=TOOLS, when=f.tool_count > 0),
            Rule("no_cause_found", to=END, when=f.no_cause_found, then=review),
            Rule("low_confidence", to=VALIDATION, when=(f.confidence < p.least_confidence) & ~f.validated),
            Rule("unvalidated", to=VALIDATION, when=~f.validated),
            Rule(
                "complete",
                to=END,
                when=Always(),
                then=complete,
                unreachable_because="an answer that is confirmed has ended the run, and the next is a new one",
            ),
        ],
    )
    after_validation = Router[ValidationFacts, IncidentPolicy](
        "incident_investigation.route_after_validation",
        facts=validation_facts,
        policy=policy,
        rules=[
            Rule("confirmed", to=END, when=v.confirmed, then=complete),
            Rule("iteration_limit", to=END, when=over_by_then, then=review),
            Rule("budget_exhausted", to=END, when=v.budget_spent != "", then=review),
            Rule("refuted", to=AGENT, when=Always()),
        ],
    )
    return after_screen, after_agent, after_validation
