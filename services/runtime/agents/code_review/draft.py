"""Drafted verdicts: asked of a model as arguments of a tool, checked, and asked again when they are broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from langchain_core.messages import BaseMessage
from pydantic import Field, model_validator
from signalbox.v1 import evaluator_pb2, sast_pb2

from services.kit.models.records import UnreadableAnswer
from services.runtime.agents.structured import Submission, Submitted
from services.runtime.calls.chat_model import ChatModel

SUBMIT_VERDICT = "submit_verdict"
Word = Literal["TRUE_POSITIVE", "FALSE_POSITIVE", "NEEDS_REVIEW"]
NEEDS_REVIEW: Word = "NEEDS_REVIEW"
MAX_CLAIMS = 50


class CodeEvidence(Submitted):
    """A claim about code, with the lines it rests on."""

    claim: str = Field(min_length=1, max_length=2000, description="What these lines show, in a sentence.")
    file: str = Field(min_length=1, max_length=1024, description="File in the code bank, spelt as it is there.")
    first_line: int = Field(ge=1, le=10_000_000, description="First line that shows it.")
    last_line: int = Field(ge=1, le=10_000_000, description="Last line that shows it.")
    quote: str = Field("", max_length=4000, description="The code that shows it, word for word, without comments.")

    @model_validator(mode="after")
    def _lines_in_order(self) -> CodeEvidence:
        if self.last_line < self.first_line:
            raise ValueError("last_line comes before first_line")
        return self


class Draft(Submitted):
    """A verdict with the claims that it rests on."""

    verdict: Word = Field(
        description="TRUE_POSITIVE, FALSE_POSITIVE, or NEEDS_REVIEW when the code does not settle it."
    )
    confidence: float = Field(ge=0, le=1, description="How sure you are, from 0 to 1.")
    justification: str = Field(min_length=1, max_length=8000, description="Why, in a few sentences.")
    claims: list[CodeEvidence] = Field(
        max_length=MAX_CLAIMS, description="What the verdict rests on; the flagged lines must be among it."
    )


@dataclass(frozen=True)
class Drafted:
    """A draft, or what was wrong with every attempt at one."""

    draft: dict[str, Any] | None
    problem: str = ""


VERDICT: Final = Submission(SUBMIT_VERDICT, "Hands in the verdict.", Draft)


async def ask_for_draft(model: ChatModel, purpose: str, messages: Sequence[BaseMessage], *, attempts: int) -> Drafted:
    """Asks for a draft, and again with what was wrong when it can't be read. Raises DependencyAway, ModelRefused."""
    try:
        draft = await VERDICT.ask(model, purpose, messages, attempts=attempts)
    except UnreadableAnswer as error:
        return Drafted(None, f"{error}.")
    return Drafted(draft.model_dump())


def as_proto(draft: Mapping[str, Any], commit: str) -> evaluator_pb2.DraftVerdict:
    """Returns a draft as the evaluator takes it."""
    return evaluator_pb2.DraftVerdict(
        verdict=verdict_name(draft["verdict"]),
        confidence=draft["confidence"],
        justification=draft["justification"],
        evidence=evidence_of(draft["claims"], commit),
    )


def evidence_of(claims: Iterable[Mapping[str, Any]], commit: str) -> list[sast_pb2.Evidence]:
    """Returns a draft's claims, at the commit they were made about."""
    return [sast_pb2.Evidence(**claim, commit=commit) for claim in claims]


def verdict_name(word: str) -> str:
    """Returns the name that a verdict has in the protos."""
    return f"VERDICT_{word}"


def with_flips(justification: str, verdict: str, drafted: Sequence[str]) -> str:
    """Returns a justification that says so when rounds of the run came to other verdicts."""
    ways = [word for index, word in enumerate(drafted) if index == 0 or word != drafted[index - 1]]
    if len(ways) < 2:
        return justification
    return f"{justification} The verdict changed between rounds: {' → '.join(ways)}; it ended as {verdict}."


def verdict_word(number: int) -> str:
    """Returns the verdict of an enum value; an unspecified one is not settled."""
    word = sast_pb2.Verdict.Name(number).removeprefix("VERDICT_")
    return NEEDS_REVIEW if word == "UNSPECIFIED" else word
