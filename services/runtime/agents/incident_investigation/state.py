"""State of `incident_investigation`."""

from __future__ import annotations

import operator
from typing import Annotated, Any, Final, Literal, TypedDict

from services.runtime.routing.state import REPLACED, MessageState

InvestigationStatus = Literal["in_progress", "completed", "failed"]
InvestigationPhase = Literal["initial", "deep_dive", "validation"]
INITIAL: Final = "initial"
DEEP_DIVE: Final = "deep_dive"
VALIDATION: Final = "validation"


class CheckedEvidence(TypedDict):
    """A piece of evidence as a model gave it, what was found where it points, and why it does not hold: empty if it
    does.
    """

    evidence: dict[str, Any]
    found: str
    problem: str


class CheckedAnswer(TypedDict):
    """The last final answer: a `Conclusion` as a model handed it in, and its evidence as it was looked up."""

    conclusion: dict[str, Any]
    evidence: list[CheckedEvidence]


class IncidentState(MessageState, total=False):
    """What an incident has come to so far. `incident` is a serialized `IncidentInvestigationInput`.

    `validated` and `confirmed` are of the last answer: whether it went through validation, and what that said;
    `problems` is what spoke against it. Calls count towards the next iteration in `calls_counted`.
    """

    incident: bytes
    incident_id: str
    screening: str
    screening_reason: str
    investigation_status: InvestigationStatus
    investigation_phase: InvestigationPhase
    confidence_score: float
    start_time: str
    error_message: str
    model_failed: bool
    answer: CheckedAnswer | None
    turn_count: Annotated[int, operator.add]
    calls_counted: int
    no_cause_found: bool
    validated: bool
    confirmed: bool
    problems: Annotated[list[str], REPLACED]
