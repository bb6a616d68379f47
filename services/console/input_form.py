"""A form of an agent's input, made from its JSON schema, and the input that a filled one holds.

Objects become groups of fields, named by their path; lists, maps and what has no plain kind are written as JSON. A list
of LangChain messages is one field: what a person says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.console.json_values import json_value
from services.kit.text.json_text import json_text
from services.kit.text.words import A_MOMENT, parse_moment

# An object within an object within an object is still a group; one further down is JSON.
DEEPEST = 3
LONG_TEXT = 300
MESSAGE = "Message"
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_SENTENCE_END = re.compile(r"(?<=[.;]) +")
_NAME_IN_CONTRACT = re.compile(r"`[A-Z]\w*[a-z]|UNSPECIFIED|[A-Z]+_[A-Z]+")
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class InputField:
    """A field: its path from the input's beginning, and what it takes.

    `kind` is `text`, `long`, `number`, `flag`, `choice`, `time`, `message` or `json`.
    """

    path: tuple[str, ...]
    kind: str
    help: str
    value: str
    is_required: bool
    choices: Sequence[tuple[str, str]] = ()
    most: int | None = None

    @property
    def name(self) -> str:
        """Its name in the form."""
        return ".".join(("input", *self.path))

    @property
    def label(self) -> str:
        """What it is called on the page."""
        return ": ".join(part.replace("_", " ") for part in self.path)


def fields_of(schema: Schema, values: Mapping[str, Any]) -> list[InputField]:
    """Returns the fields of a form, filled with the values of an earlier input."""
    return list(_fields(schema, schema, values, (), is_required=True))


def _fields(
    root: Schema, schema: Schema, values: Mapping[str, Any], path: tuple[str, ...], *, is_required: bool
) -> Iterator[InputField]:
    wanted = schema.get("required", ())
    for name, given in sorted(schema.get("properties", {}).items(), key=lambda each: each[0] not in wanted):
        inner = _plain(root, given)
        value, needed = values.get(name), is_required and name in wanted
        if inner.get("properties") and len(path) + 1 < DEEPEST:
            group = value if isinstance(value, Mapping) else {}
            yield from _fields(root, inner, group, (*path, name), is_required=needed)
        else:
            # What is said of the field, and not of what it holds.
            yield _field(inner, value, (*path, name), _help(str(given.get("description", ""))), is_required=needed)


def _help(text: str) -> str:
    """Returns what is said of a field, without the sentences that name parts of the contract, as programs do."""
    return " ".join(each for each in _SENTENCE_END.split(text) if not _NAME_IN_CONTRACT.search(each))


def _plain(root: Schema, schema: Schema) -> Schema:
    """Returns what a schema refers to, or the one kind of value that it takes beside none."""
    for _ in range(DEEPEST):
        if reference := schema.get("$ref"):
            schema = root.get("$defs", {}).get(str(reference).removeprefix("#/$defs/"), {})
        elif len(others := [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]) == 1:
            schema = others[0]
    return schema


def _field(schema: Schema, value: Any, path: tuple[str, ...], said: str, *, is_required: bool) -> InputField:
    choices = [str(each) for each in schema.get("enum", ())]
    if choices:
        beginning = _common_beginning(choices)
        named = [(each, each.removeprefix(beginning).replace("_", " ").lower()) for each in choices]
        shown = [(each, words) for each, words in named if words != "unspecified"]
        return InputField(path, "choice", said, str(value or ""), is_required, shown)
    match schema.get("type"):
        case "boolean":
            return InputField(path, "flag", said, "on" if value else "", is_required=False)
        case "integer" | "number":
            return InputField(path, "number", said, "" if value is None else f"{value:g}", is_required)
        case "string" if schema.get("format") == "date-time":
            return InputField(path, "time", said, str(value or ""), is_required)
        case "string":
            most = schema.get("maxLength")
            kind = "long" if most is None or most >= LONG_TEXT else "text"
            return InputField(path, kind, said, str(value or ""), is_required, most=most)
        case "array" if path[-1] == "messages" or _plain(schema, schema.get("items", {})).get("title") == MESSAGE:
            return InputField(path, "message", said, _said(value), is_required)
    return InputField(path, "json", said, "" if value in (None, [], {}) else json_text(value), is_required)


def _common_beginning(names: Sequence[str]) -> str:
    """Returns what all names of an enum begin with, up to a low line: it says nothing."""
    first = names[0].removesuffix("UNSPECIFIED")
    return first if first.endswith("_") and all(name.startswith(first) for name in names) else ""


def _said(value: Any) -> str:
    last = value[-1] if isinstance(value, list) and value else value
    said = last.get("content", "") if isinstance(last, Mapping) else last
    return said if isinstance(said, str) else ""


def input_of(fields: Sequence[InputField], form: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the input that a form holds, and what is wrong with some of its fields, by their names."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for each in fields:
        text = form.get(each.name, "")
        if not text.strip():
            continue
        try:
            value = _value(each, text)
        except ValueError as error:
            problems[each.name] = str(error)
            continue
        group = values
        for part in each.path[:-1]:
            group = group.setdefault(part, {})
        group[each.path[-1]] = value
    return values, problems


def _value(field: InputField, text: str) -> Any:
    match field.kind:
        case "flag":
            return True
        case "number":
            return _number(text)
        case "time":
            try:
                return parse_moment(text).ToJsonString()
            except ValueError as error:
                raise ValueError(f"not a time: give {A_MOMENT}") from error
        case "message":
            return [{"role": "user", "content": text}]
        case "json":
            return json_value(text)
    return text


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise ValueError("not a number") from error
    if not math.isfinite(number):
        raise ValueError("not a number that can be sent")
    return int(text) if _WHOLE.fullmatch(text.strip()) else number
