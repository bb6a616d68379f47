"""State of `graph_editor`."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

from services.runtime.routing.state import REPLACED, AgentState, append

# Outcomes of an operation.
OK: Final = "ok"
NOT_APPLIED: Final = "not_applied"
UNKNOWN: Final = "unknown"

# What a failure is, and so what can mend it.
RANDOM: Final = "random"
IDENTICAL: Final = "identical"
SYSTEMATIC: Final = "systematic"
INPUT: Final = "input"

# What a question is about.
AMBIGUITY: Final = "ambiguity"
CONTRADICTION: Final = "contradiction"
APPROVAL: Final = "approval"
FAILURE: Final = "failure"

# Of a run that is told nothing in words: no goal, nothing to screen.
NO_WORDS: Final = "no_words"


class Operation(TypedDict):
    """One planned call of a tool; its id is the key of its effect."""

    operation_id: str
    tool: str
    arguments: dict[str, Any]


class Plan(TypedDict):
    """The next operations in order, and whether the goal is reached after them.

    `plan_hash` is a digest of them and of what was carried out before: what a person approves, once.
    """

    operations: list[Operation]
    plan_hash: str
    goal_reached: bool


class Problem(TypedDict):
    """What went wrong last: at which call, a reason code, and words for the model.

    `call` is a digest of tool, arguments and reason, by which the same failure is known again.
    """

    reason: str
    message: str
    tool: str
    call: str
    retryable: bool


class PerformedOperation(TypedDict):
    """An operation that succeeded, or in a preview would: what it did, and the change with before and after.

    `differs` names the properties of what was there already that are not as they were to be.
    """

    operation_id: str
    tool: str
    arguments: dict[str, Any]
    result: str
    text: str
    change: dict[str, Any]
    differs: list[str]


class Clarification(TypedDict):
    """A question about the goal, and what a person answered; the last release did not note what it was about."""

    question: str
    about: NotRequired[str]
    answer: str


class Escalation(TypedDict):
    """What to tell the caller, or what to ask a person: then `about` says what about.

    `no` is the option that declines. An answer is one of the options, or any text with `any_text`. `changes` is what
    would be changed, as JSON; `roles` may answer, and the caller if `for_caller`.
    """

    about: str
    text: str
    options: list[str]
    no: str
    any_text: bool
    plan_hash: str
    changes: dict[str, Any]
    for_caller: bool
    roles: list[str]


class Reply(TypedDict):
    """What a person answered, or which question nobody did: that can count as declined, or others are asked."""

    about: str
    text: str
    declined: bool
    expired: bool
    others_left: bool
    input_request_id: str


class GraphEditorState(AgentState, total=False):
    """What a goal has come to so far; an empty record is none."""

    goal: str
    screening: str
    screening_reason: str
    preview: bool
    undo_run_id: str
    goal_spec: dict[str, Any]
    parse_attempts: int
    clarifications: Annotated[list[Clarification], append]
    advice: Annotated[list[str], append]
    plan: Plan
    position: int
    diff: Annotated[list[PerformedOperation], REPLACED]
    unapproved_changes: int
    approved: Annotated[list[str], append]
    approved_operations: Annotated[list[str], append]
    outcome: str
    last_step: PerformedOperation
    met: bool
    problem: Problem
    failures: int
    seen_failures: Annotated[list[str], append]
    diagnosis: str
    done: Annotated[list[PerformedOperation], append]
    escalation: Escalation
    reply: Reply
    questions_asked: int
    answer: str
    reached: str
