"""The cause of an incident as it is to be validated: read from a request, checked, and written down for the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import json_format, struct_pb2
from signalbox.v1 import evaluator_pb2

from services.evaluator.errors import InvalidEvaluation
from services.kit.errors import FieldViolation
from services.kit.models.prompts import data_block, words

CAUSE: Final = "validate_cause"
MAX_EVIDENCE = 20
MAX_GATHERED = 100
MAX_TEXT_CHARACTERS = 20_000


@dataclass(frozen=True)
class CauseEvidence:
    """Something that the cause rests on, and what was found where it points; `problem` is why it does not hold."""

    claim: str
    source: Mapping[str, Any]
    found: str
    problem: str


@dataclass(frozen=True)
class NamedCause:
    """A cause that an investigation has named, with the incident and all that was found."""

    incident: Mapping[str, str]
    root_cause: str
    explanation: str
    evidence: Sequence[CauseEvidence]
    gathered: Sequence[Mapping[str, Any]]

    def problems(self) -> list[str]:
        """Returns what is wrong with it that can be seen without a model."""
        if not self.evidence:
            return ["no evidence was handed in"]
        return [f"{each.claim}: {each.problem}" for each in self.evidence if each.problem]


def cause_prompt() -> str:
    """Returns the instructions for a validation."""
    return words(__package__, CAUSE)


def cause_document(cause: NamedCause, characters: int) -> str:
    """Returns a cause as data; of what was gathered besides, so many characters, the last of it."""
    left = characters
    gathered: list[dict[str, Any]] = []
    for each in reversed(cause.gathered):
        size = len(json.dumps(each, ensure_ascii=False))
        if size > left:
            break
        left -= size
        gathered.insert(0, dict(each))
    left_out = len(cause.gathered) - len(gathered)
    return data_block(
        {
            "task": CAUSE,
            "incident": dict(cause.incident),
            "root_cause": cause.root_cause,
            "explanation": cause.explanation,
            "evidence": [{"claim": each.claim, **each.source, "found": each.found} for each in cause.evidence],
            "gathered": gathered,
            **({"gathered_left_out": left_out} if left_out else {}),
        }
    )


def read_cause(request: evaluator_pb2.ValidateCauseRequest) -> NamedCause:
    """Returns what a request asks to validate. Raises InvalidEvaluation."""
    if violations := list(_violations(request)):
        raise InvalidEvaluation(violations)
    incident = {"title": request.title, "service": request.service, "text": request.text}
    return NamedCause(
        incident={**incident, "started_at": request.started_at.ToJsonString()},
        root_cause=request.root_cause,
        explanation=request.explanation,
        evidence=[
            CauseEvidence(each.claim, _plain(each.source), each.found, each.problem) for each in request.evidence
        ],
        gathered=[
            {"tool": each.tool, "arguments": _plain(each.arguments), "result": each.result} for each in request.gathered
        ],
    )


def _violations(request: evaluator_pb2.ValidateCauseRequest) -> Iterator[FieldViolation]:
    for field in ("title", "service", "root_cause"):
        if not getattr(request, field).strip():
            yield FieldViolation(field, "must not be empty")
    if not request.HasField("started_at"):
        yield FieldViolation("started_at", "must be set")
    for field, most in (("evidence", MAX_EVIDENCE), ("gathered", MAX_GATHERED)):
        if (size := len(getattr(request, field))) > most:
            yield FieldViolation(field, f"must have at most {most} items, not {size}")
    texts = [request.text, request.explanation, *(each.found for each in request.evidence)]
    if any(len(text) > MAX_TEXT_CHARACTERS for text in (*texts, *(each.result for each in request.gathered))):
        yield FieldViolation("", f"a text must have at most {MAX_TEXT_CHARACTERS} characters")


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    return dict(json_format.MessageToDict(struct))
