"""Routers of `graph_editor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from signalbox_routing.table import END, Router, Rule, State, StateUpdate
from signalbox_routing.terms import Always, terms

from services.kit.tools.names import CYPHER_QUERY, UPDATE_PROPS
from services.runtime.agents.graph_editor.planning import approval_holds, change_missing
from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.graph_editor.state import (
    AMBIGUITY,
    APPROVAL,
    CONTRADICTION,
    IDENTICAL,
    NO_WORDS,
    NOT_APPLIED,
    RANDOM,
    SYSTEMATIC,
    UNKNOWN,
    Plan,
)
from services.runtime.agents.refusals import UNKNOWN_TOOL
from services.runtime.agents.screening import ALLOWED, BLOCKED, NO_VERDICT, fail
from services.runtime.routing.state import budget_spent

ESCALATED: Final = "escalated"
SIMPLE: Final = "simple"
NO_PLAN: Final = Plan(operations=[], plan_hash="", goal_reached=False)


@dataclass(frozen=True)
class ParseFacts:
    """What is known once the goal has been screened and read; no rule reads `problem`, here or below, or `reason`."""

    screening: str
    reason: str
    failed: bool
    problem: str
    in_scope: bool
    budget_spent: str
    contradictions: int
    confidence: float
    complexity: str


@dataclass(frozen=True)
class PlanFacts:
    """What is known once the next operations have been planned."""

    failed: bool
    problem: str


@dataclass(frozen=True)
class CheckFacts:
    """What is known once a plan has been checked.

    `unapproved_changes` are the nodes and edges that the run would have changed after it without a person's approval.
    """

    failed: bool
    unknown_tool: bool
    problem: str
    preview: bool
    approval_missing: bool
    unapproved_changes: int


@dataclass(frozen=True)
class CallFacts:
    """What is known once an operation has been asked for."""

    outcome: str
    problem: str


@dataclass(frozen=True)
class EditOutcomeFacts:
    """What is known once an operation has been judged."""

    failures: int
    met: bool
    goal_reached: bool
    operations_left: int
    operation_count: int
    budget_spent: str


@dataclass(frozen=True)
class DiagnosisFacts:
    """What is known once a failure has been classified."""

    failures: int
    operation_count: int
    budget_spent: str
    diagnosis: str
    problem: str
    goal_known: bool


@dataclass(frozen=True)
class EscalationFacts:
    """What is known once words for a person have been composed; a question among them is counted already."""

    about: str
    questions_asked: int


@dataclass(frozen=True)
class ReplyFacts:
    """What is known once a person has answered, or has not."""

    expired: bool
    declined: bool
    about: str
    others_left: bool


def parse_facts(state: State) -> ParseFacts:
    """Takes the facts of `route_after_parse_goal` from state."""
    spec = state.get("goal_spec") or {}
    return ParseFacts(
        screening=state.get("screening", ""),
        reason=state.get("screening_reason", ""),
        failed=_problem(state) != "",
        problem=_problem(state),
        in_scope=spec.get("in_scope", False),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        contradictions=len(spec.get("contradictions", ())),
        confidence=float(spec.get("confidence", 0.0)),
        complexity=spec.get("complexity", ""),
    )


def plan_facts(state: State) -> PlanFacts:
    """Takes the facts of `route_after_plan_step` from state."""
    return PlanFacts(_problem(state) != "", _problem(state))


def check_facts(state: State) -> CheckFacts:
    """Takes the facts of `route_after_route_tool` from state."""
    plan = state.get("plan") or NO_PLAN
    destructive = any(is_destructive(each["tool"], each["arguments"]) for each in plan["operations"])
    return CheckFacts(
        failed=_problem(state) != "",
        unknown_tool=_problem(state) == UNKNOWN_TOOL,
        problem=_problem(state),
        preview=bool(state.get("preview")),
        approval_missing=destructive and not approval_holds(state, plan),
        unapproved_changes=state.get("unapproved_changes", 0),
    )


def call_facts(state: State) -> CallFacts:
    """Takes the facts of `route_after_call_tool` from state."""
    return CallFacts(state.get("outcome", ""), _problem(state))


def evaluation_facts(state: State) -> EditOutcomeFacts:
    """Takes the facts of `route_after_evaluate` from state."""
    plan = state.get("plan") or NO_PLAN
    return EditOutcomeFacts(
        failures=state.get("failures", 0),
        met=bool(state.get("met")),
        # A goal that writes is reached by no plan that only reads, whatever its model says.
        goal_reached=plan["goal_reached"] and not change_missing(state),
        operations_left=len(plan["operations"]) - state.get("position", 0),
        operation_count=state.get("iteration_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
    )


def diagnosis_facts(state: State) -> DiagnosisFacts:
    """Takes the facts of `route_after_diagnose` from state."""
    return DiagnosisFacts(
        failures=state.get("failures", 0),
        operation_count=state.get("iteration_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        diagnosis=state.get("diagnosis", ""),
        problem=_problem(state),
        goal_known=bool(state.get("goal_spec")),
    )


def escalation_facts(state: State) -> EscalationFacts:
    """Takes the facts of `route_after_escalate` from state."""
    return EscalationFacts(_about(state), state.get("questions_asked", 0))


def reply_facts(state: State) -> ReplyFacts:
    """Takes the facts of `route_after_ask_person` from state."""
    reply = state.get("reply") or {}
    return ReplyFacts(
        expired=reply.get("expired", False),
        declined=reply.get("declined", False),
        about=_about(state),
        others_left=reply.get("others_left", False),
    )


def is_destructive(tool: str, arguments: dict[str, Any]) -> bool:
    """Tells whether an operation needs a person's approval."""
    if tool == UPDATE_PROPS:
        return bool(arguments.get("remove"))
    return tool.startswith("delete_") or (tool == CYPHER_QUERY and arguments.get("write") is True)


def stop(rule: str) -> StateUpdate:
    """Notes which breaker ended the run."""
    return {"stop_reason": rule}


def go_on(_rule: str) -> StateUpdate:
    """Counts failures from 0 again; what stopped the run before does so no more."""
    return {"failures": 0, "stop_reason": ""}


def end_well(_rule: str) -> StateUpdate:
    """Takes back what stopped the run: a person has decided."""
    return {"stop_reason": ""}


def _about(state: State) -> str:
    return str((state.get("escalation") or {}).get("about", ""))


def _problem(state: State) -> str:
    return str((state.get("problem") or {}).get("reason", ""))


def make_routers(policy: GraphEditorPolicy) -> dict[str, Router[Any, GraphEditorPolicy]]:
    """Returns the routers by the node that they follow."""
    return {
        "parse_goal": _after_parse_goal(policy),
        "plan_step": _after_plan_step(policy),
        "route_tool": _after_route_tool(policy),
        "call_tool": _after_call_tool(policy),
        "evaluate": _after_evaluate(policy),
        "diagnose": _after_diagnose(policy),
        "escalate": _after_escalate(policy),
        "ask_person": _after_ask_person(policy),
    }


def _after_parse_goal(policy: GraphEditorPolicy) -> Router[ParseFacts, GraphEditorPolicy]:
    f, p = terms(ParseFacts), terms(GraphEditorPolicy)
    return Router[ParseFacts, GraphEditorPolicy](
        "graph_editor.route_after_parse_goal",
        facts=parse_facts,
        policy=policy,
        rules=[
            Rule("guard_unavailable", to=END, when=f.screening.is_in(NO_VERDICT), then=fail),
            # Whatever is not plainly let through is blocked.
            Rule(BLOCKED, to="answer", when=~f.screening.is_in((ALLOWED, NO_WORDS)), then=stop),
            Rule("parse_failed", to="diagnose", when=f.failed),
            Rule("out_of_scope", to="escalate", when=~f.in_scope),
            Rule("budget_exhausted", to="answer", when=f.budget_spent != "", then=stop),
            Rule("contradiction", to="escalate", when=f.contradictions > 0),
            Rule("ambiguous", to="escalate", when=f.confidence < p.min_confidence),
            Rule("simple", to="route_tool", when=f.complexity == SIMPLE),
            Rule("complex", to="plan_step", when=Always()),
        ],
    )


def _after_plan_step(policy: GraphEditorPolicy) -> Router[PlanFacts, GraphEditorPolicy]:
    f = terms(PlanFacts)
    return Router[PlanFacts, GraphEditorPolicy](
        "graph_editor.route_after_plan_step",
        facts=plan_facts,
        policy=policy,
        rules=[
            Rule("plan_failed", to="diagnose", when=f.failed),
            Rule("planned", to="route_tool", when=Always()),
        ],
    )


def _after_route_tool(policy: GraphEditorPolicy) -> Router[CheckFacts, GraphEditorPolicy]:
    f, p = terms(CheckFacts), terms(GraphEditorPolicy)
    return Router[CheckFacts, GraphEditorPolicy](
        "graph_editor.route_after_route_tool",
        facts=check_facts,
        policy=policy,
        rules=[
            Rule("unknown_tool", to="diagnose", when=f.unknown_tool),
            Rule("invalid_arguments", to="diagnose", when=f.failed),
            Rule("previewed", to="answer", when=f.preview),
            Rule(
                "needs_approval", to="escalate",
                when=f.approval_missing | (f.unapproved_changes > p.max_unapproved_changes),
            ),
            Rule("valid", to="call_tool", when=Always()),
        ],
    )  # fmt: skip


def _after_call_tool(policy: GraphEditorPolicy) -> Router[CallFacts, GraphEditorPolicy]:
    f = terms(CallFacts)
    return Router[CallFacts, GraphEditorPolicy](
        "graph_editor.route_after_call_tool",
        facts=call_facts,
        policy=policy,
        rules=[
            Rule("outcome_unknown", to="answer", when=f.outcome == UNKNOWN, then=stop),
            Rule("failed", to="diagnose", when=f.outcome == NOT_APPLIED),
            Rule("ok", to="evaluate", when=Always()),
        ],
    )


def _after_evaluate(policy: GraphEditorPolicy) -> Router[EditOutcomeFacts, GraphEditorPolicy]:
    f, p = terms(EditOutcomeFacts), terms(GraphEditorPolicy)
    return Router[EditOutcomeFacts, GraphEditorPolicy](
        "graph_editor.route_after_evaluate",
        facts=evaluation_facts,
        policy=policy,
        rules=[
            Rule("retries_exhausted", to="escalate", when=f.failures >= p.max_failures, then=stop),
            Rule("retry", to="diagnose", when=~f.met),
            Rule("goal_complete", to="answer", when=(f.operations_left <= 0) & f.goal_reached),
            Rule("step_limit", to="escalate", when=f.operation_count >= p.max_operations, then=stop),
            Rule("budget_exhausted", to="answer", when=f.budget_spent != "", then=stop),
            Rule("next_operation", to="call_tool", when=f.operations_left > 0),
            Rule("next_step", to="plan_step", when=Always()),
        ],
    )


def _after_diagnose(policy: GraphEditorPolicy) -> Router[DiagnosisFacts, GraphEditorPolicy]:
    f, p = terms(DiagnosisFacts), terms(GraphEditorPolicy)
    return Router[DiagnosisFacts, GraphEditorPolicy](
        "graph_editor.route_after_diagnose",
        facts=diagnosis_facts,
        policy=policy,
        rules=[
            Rule("retries_exhausted", to="escalate", when=f.failures >= p.max_failures, then=stop),
            Rule("step_limit", to="escalate", when=f.operation_count >= p.max_operations, then=stop),
            Rule("budget_exhausted", to="answer", when=f.budget_spent != "", then=stop),
            Rule("retry_same", to="call_tool", when=f.diagnosis == RANDOM),
            Rule("identical", to="escalate", when=f.diagnosis == IDENTICAL),
            Rule("systematic", to="escalate", when=f.diagnosis == SYSTEMATIC),
            Rule("reparse", to="parse_goal", when=~f.goal_known),
            Rule("retry", to="plan_step", when=Always()),
        ],
    )


def _after_escalate(policy: GraphEditorPolicy) -> Router[EscalationFacts, GraphEditorPolicy]:
    f, p = terms(EscalationFacts), terms(GraphEditorPolicy)
    return Router[EscalationFacts, GraphEditorPolicy](
        "graph_editor.route_after_escalate",
        facts=escalation_facts,
        policy=policy,
        rules=[
            Rule("informed", to="answer", when=f.about == ""),
            Rule(
                "question_limit", to="answer",
                when=(f.about != APPROVAL) & (f.questions_asked > p.max_questions), then=stop,
            ),
            Rule("ask", to="ask_person", when=Always()),
        ],
    )  # fmt: skip


def _after_ask_person(policy: GraphEditorPolicy) -> Router[ReplyFacts, GraphEditorPolicy]:
    f = terms(ReplyFacts)
    return Router[ReplyFacts, GraphEditorPolicy](
        "graph_editor.route_after_ask_person",
        facts=reply_facts,
        policy=policy,
        rules=[
            Rule(ESCALATED, to="ask_person", when=f.expired & f.others_left),
            Rule("defaulted", to="answer", when=f.expired & f.declined, then=end_well),
            Rule("expired", to="answer", when=f.expired, then=stop),
            Rule("declined", to="answer", when=f.declined, then=end_well),
            Rule("approved", to="call_tool", when=f.about == APPROVAL),
            Rule("answered", to="parse_goal", when=f.about.is_in((AMBIGUITY, CONTRADICTION))),
            Rule("another_way", to="plan_step", when=Always(), then=go_on),
        ],
    )
