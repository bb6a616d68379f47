"""What a hosted graph asks people: all interrupts of a step as one question, each answered by its id with any JSON.

A text answers one that is alone: what is JSON as that, any other as it is. An answer is held to the schema that the
graph gives, or that LangChain's middleware means, before it is taken: one that does not fit would end the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import jsonschema
from jsonschema.exceptions import SchemaError
from langgraph.types import Interrupt
from pydantic_core import to_jsonable_python
from referencing import Registry
from referencing.exceptions import Unresolvable

from services.kit.errors import FieldViolation
from services.runtime.errors import InvalidAnswer

INTERRUPTS: Final = "interrupts"
LONGEST_PAYLOAD: Final = 200_000
# Of all that is asked at once, as JSON: a run that asks it is told in one message, where small numbers take more room.
MOST_ASKED_BYTES: Final = 500_000
# As UTF-8, or escaped as a quotation mark in JSON within JSON is.
_BYTES_OF_CHARACTER: Final = 4
# More than these are told in the details alone.
MOST_WORDED: Final = 20
LONGEST_ANSWERS: Final = 200_000
_MOST_VIOLATIONS: Final = 20
_LONGEST: Final = 300
# Decisions that need no words.
_SAME_OF_ALL: Final = ("approve", "reject")
_MESSAGE: Final = {"type": "string"}


class TooMuchAskedError(ValueError):
    """What a step asks is more than its run can be told with."""


def question_of(interrupts: Sequence[Interrupt]) -> tuple[str, dict[str, Any]]:
    """Returns the id and the parts of the question that interrupts ask.

    A payload that words a `question` is asked by that, with its `options`, and a review of actions by their
    descriptions; any other is shown as JSON. Of payloads that are too long together, each is cut to its share. Raises
    TooMuchAskedError.
    """
    asked = _asked(interrupts, LONGEST_PAYLOAD)
    if _bytes_of(asked) > MOST_ASKED_BYTES:
        asked = _asked(interrupts, MOST_ASKED_BYTES // 2 // _BYTES_OF_CHARACTER // len(interrupts))
    if (size_bytes := _bytes_of(asked)) > MOST_ASKED_BYTES:
        said = f"the questions ({len(asked):,}) with the schemas of their answers take {size_bytes:,} bytes"
        raise TooMuchAskedError(f"{said}, and at most {MOST_ASKED_BYTES:,} can be asked at once; ask fewer")
    if len(asked) == 1:
        [only] = asked
        question, options = _worded(only["payload"])
        return only["id"], {"question": question, "options": options, "any_text": True, "detail": {INTERRUPTS: asked}}
    said = "\n\n".join(f"{each['id']}:\n{_worded(each['payload'])[0]}" for each in asked[:MOST_WORDED])
    more = f"\n\nand {len(asked) - MOST_WORDED} more" if len(asked) > MOST_WORDED else ""
    question_id = hashlib.sha256("|".join(each["id"] for each in asked).encode()).hexdigest()[:32]
    question = f"{len(asked)} questions, each to be answered by its id:\n\n{said}{more}"
    return question_id, {"question": question, "any_text": True, "detail": {INTERRUPTS: asked}}


def resumption_of(
    asked: Sequence[Mapping[str, Any]], answer: str, waiting: set[str], *, by_id: bool
) -> dict[str, Any] | None:
    """Returns what a graph goes on with, by interrupt; None where it no longer waits for any of it."""
    given = json.loads(answer) if by_id else {asked[0]["id"]: value_of(answer)}
    return {interrupt_id: value for interrupt_id, value in given.items() if interrupt_id in waiting} or None


def value_of(text: str) -> Any:
    """Returns what a text is given to a graph as: what is JSON as that, any other as it is."""
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text


def check_answers(asked: Sequence[Mapping[str, Any]], text: str, answers: Mapping[str, Any] | None) -> None:
    """Checks answers to interrupts, as a text or by id. Raises InvalidAnswer, with the paths of what is wrong."""
    schemas = {each["id"]: each["schema"] for each in asked}
    if answers is None:
        if len(asked) > 1:
            raise InvalidAnswer(f"the run asks {len(asked)} questions at once; answer them by id: {', '.join(schemas)}")
        [schema] = schemas.values()
        violations = list(_violations("answer", value_of(text), schema))
    else:
        if unknown := sorted(answers.keys() - schemas.keys()):
            raise InvalidAnswer(f"the run does not ask {', '.join(unknown)}; it asks {', '.join(schemas)}")
        violations = [
            violation
            for interrupt_id, value in answers.items()
            for violation in _violations(f"answers[{interrupt_id}]", value, schemas[interrupt_id])
        ]
    if violations:
        said = f"{violations[0].field}: {violations[0].description}"
        raise InvalidAnswer(f"the answer does not fit the question: {said}", violations=violations[:_MOST_VIOLATIONS])


def _worded(payload: Any) -> tuple[str, list[str]]:
    if isinstance(payload, str):
        return payload, []
    given = payload if isinstance(payload, dict) else {}
    if _schema_of_review(payload):
        return _worded_review(given)
    question, options = given.get("question"), given.get("options")
    worded = question if isinstance(question, str) and question.strip() else ""
    fitting = [each for each in options if isinstance(each, str)] if isinstance(options, list) else []
    return worded or json.dumps(payload, ensure_ascii=False, indent=2), fitting


def _worded_review(payload: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns the actions that are to be reviewed, and the answers that decide the same of all of them."""
    actions, configs = payload["action_requests"], payload["review_configs"]
    said = [each.get("description") if isinstance(each, Mapping) else None for each in actions]
    words = [each if isinstance(each, str) else json.dumps(action) for each, action in zip(said, actions, strict=True)]
    kinds = [kind for kind in _SAME_OF_ALL if all(kind in each["allowed_decisions"] for each in configs)]
    return "\n\n".join(words), [json.dumps({"decisions": [{"type": kind}] * len(actions)}) for kind in kinds]


def _asked(interrupts: Sequence[Interrupt], longest: int) -> list[dict[str, Any]]:
    return [
        {"id": each.id, "payload": _bounded(each.value, longest), "schema": _schema_of(each)}
        for each in sorted(interrupts, key=lambda each: each.id)
    ]


def _bytes_of(asked: Sequence[Mapping[str, Any]]) -> int:
    return len(json.dumps(asked, ensure_ascii=False, default=str).encode(errors="replace"))


def _bounded(value: Any, longest: int) -> Any:
    payload = to_jsonable_python(
        value, fallback=str, serialize_unknown=True, inf_nan_mode="strings", bytes_mode="base64"
    )
    written = json.dumps(payload, ensure_ascii=False)
    return payload if len(written) <= longest else f"{written[:longest]}…"


def _schema_of(interrupt: Interrupt) -> dict[str, Any] | None:
    """Returns the schema that an answer is held to; None where there is none that can be read."""
    given = interrupt.response_schema
    schema = given if isinstance(given, dict) else _schema_of_review(interrupt.value)
    if schema is None:
        return None
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except SchemaError:
        return None
    return schema


def _schema_of_review(payload: Any) -> dict[str, Any] | None:
    """Returns what `HumanInTheLoopMiddleware` takes: a decision for each action, of those that are allowed for it."""
    if not isinstance(payload, Mapping):
        return None
    actions, configs = payload.get("action_requests"), payload.get("review_configs")
    if not isinstance(actions, list) or not isinstance(configs, list) or len(actions) != len(configs):
        return None
    allowed = [each.get("allowed_decisions") if isinstance(each, Mapping) else None for each in configs]
    if not all(isinstance(each, list) and each for each in allowed):
        return None
    decisions = {
        "type": "array",
        "prefixItems": [_decision(each) for each in allowed],
        "minItems": len(actions),
        "maxItems": len(actions),
    }
    return {"type": "object", "properties": {"decisions": decisions}, "required": ["decisions"]}


def _decision(allowed: Any) -> dict[str, Any]:
    action = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
        "required": ["name", "args"],
    }
    needs: dict[str, dict[str, Any]] = {"edit": {"edited_action": action}, "respond": {"message": _MESSAGE}}
    rules: list[dict[str, Any]] = [
        {"if": {"properties": {"type": {"const": kind}}}, "then": {"properties": fields, "required": list(fields)}}
        for kind, fields in needs.items()
        if kind in allowed
    ]
    typed = {"type": {"enum": allowed}, "message": _MESSAGE}
    return {"type": "object", "properties": typed, "required": ["type"], "allOf": rules or [{}]}


def _violations(place: str, value: Any, schema: Mapping[str, Any] | None) -> Iterator[FieldViolation]:
    if schema is None:
        return
    # Nothing that a schema refers to is fetched.
    validator = jsonschema.Draft202012Validator(dict(schema), registry=Registry())
    try:
        for error in validator.iter_errors(value):
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
            yield FieldViolation(f"{place}{path}", error.message[:_LONGEST])
    except Unresolvable:
        return
