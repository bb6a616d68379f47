"""Drafted verdicts: asked of a model as arguments of a tool, checked, and asked again when they are broken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from signalbox.v1 import evaluator_pb2, sast_pb2

from services.kit.models.prompts import with_data
from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.mended_answers import each_key_once

SUBMIT_VERDICT = "submit_verdict"
Word = Literal["TRUE_POSITIVE", "FALSE_POSITIVE", "NEEDS_REVIEW"]
NEEDS_REVIEW: Word = "NEEDS_REVIEW"
MAX_CLAIMS = 50
_UNUSABLE = f"Your last answer could not be used. Call {SUBMIT_VERDICT}."
# The key of a verdict handed in as text.
_VERDICT = re.compile(r'"verdict"\s*:')


class CodeEvidence(BaseModel):
    """A claim about code, with the lines it rests on."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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


class Draft(BaseModel):
    """A verdict with the claims that it rests on."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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


def submit_tool() -> dict[str, Any]:
    """Returns the tool that takes a draft, in the form that chat completions take."""
    schema = Draft.model_json_schema()
    claim = _plain(schema.pop("$defs")[CodeEvidence.__name__])
    parameters = _plain(schema)
    parameters["properties"]["claims"]["items"] = claim
    function = {"name": SUBMIT_VERDICT, "description": "Hands in the verdict.", "parameters": parameters}
    return {"type": "function", "function": function}


async def ask_for_draft(model: ChatModel, purpose: str, messages: Sequence[BaseMessage], *, attempts: int) -> Drafted:
    """Asks for a draft, and again with what was wrong when it can't be read. Raises what `ChatModel.ask` does."""
    problem = ""
    for _ in range(attempts):
        told = [HumanMessage(with_data(_UNUSABLE, {"problem": problem}))] if problem else []
        answer, _call = await model.ask(purpose, [*messages, *told], [submit_tool()], tool_choice=SUBMIT_VERDICT)
        try:
            return Drafted(Draft.model_validate(_submitted(answer)).model_dump())
        except ValidationError as error:
            problem = "; ".join(_problem(found) for found in error.errors(include_url=False)[:5]) + "."
        except ValueError as error:
            problem = f"{error}."
    return Drafted(None, problem)


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


def _submitted(answer: AIMessage) -> Any:
    """Returns what was handed in: a call's arguments, or JSON in the text. Raises ValueError, also for two verdicts."""
    calls = len(answer.tool_calls) + len(answer.invalid_tool_calls)
    if calls > 1 or (calls and _VERDICT.search(answer.text)):
        raise ValueError("there is more than one verdict in it")
    if answer.tool_calls:
        return answer.tool_calls[0]["args"]
    if answer.invalid_tool_calls:
        raise ValueError(f"the arguments are not a JSON object: {str(answer.invalid_tool_calls[0]['args'])[:100]}")
    start, end = answer.text.find("{"), answer.text.rfind("}")
    if start < 0 or end < start:
        raise ValueError("there is no verdict in it")
    try:
        return json.loads(answer.text[start : end + 1], object_pairs_hook=each_key_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg})") from error


def _problem(found: Any) -> str:
    return f"{'.'.join(str(part) for part in found['loc']) or 'verdict'}: {found['msg']}"


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name not in ("title", "description")}
    kept["properties"] = {
        name: {key: part for key, part in value.items() if key not in ("title", "default")}
        for name, value in schema["properties"].items()
    }
    return kept
