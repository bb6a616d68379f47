"""Records that models hand in: as the arguments of a tool, or as JSON in their text with whatever stands around it."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from services.kit.models.mending import Mend, count, load_json, mended, objects_in
from services.kit.text.problems import problems_of

RecordT = TypeVar("RecordT", bound=BaseModel)
_PROBLEMS_TOLD: Final = 5
_LONGEST_PLACE: Final = 100


class UnreadableAnswer(ValueError):
    """A model's answer that is not what it was asked for; the message says what is wrong with it."""


def read_record(kind: type[RecordT], said: Any) -> RecordT:
    """Returns the record that was handed in, mended where its meaning is plain. Raises UnreadableAnswer."""
    try:
        # As JSON, where no number is a truth value and no text a number.
        return kind.model_validate_json(json.dumps(mended(said, _schema(kind))), strict=True)
    except ValidationError as error:
        found = problems_of(error)[:_PROBLEMS_TOLD]
        # A model can make a name as long as it likes.
        told = "; ".join(str(each._replace(place=each.place[:_LONGEST_PLACE])) for each in found)
        raise UnreadableAnswer(told) from error


def read_text(kind: type[RecordT], text: str) -> RecordT:
    """Returns the one record that stands in a text. Raises UnreadableAnswer, also where two say different things."""
    return read_record(kind, object_in(kind, text))


def object_in(kind: type[BaseModel], text: str) -> dict[str, Any]:
    """Returns the one object in a text that has something of the record. Raises UnreadableAnswer."""
    try:
        if text.strip().startswith('"'):
            with suppress(ValueError):  # JSON written down as JSON
                text = str(load_json(text.strip()))
        found = [each for _, _, each in objects_in(text)]
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer(str(error) or "it is not JSON") from error
    names = set(kind.model_fields)
    telling = [each for each in found if names & set(each)] or found
    if not telling:
        raise UnreadableAnswer("there is no JSON object in it")
    if any(each != telling[0] for each in telling):
        raise UnreadableAnswer("there is more than one answer in it")
    if not text.strip().startswith("{"):
        count(Mend.PROSE)
    return telling[0]


@cache
def _schema(kind: type[BaseModel]) -> dict[str, Any]:
    return kind.model_json_schema()
