"""A form of an agent's input, made from its JSON schema, and the input that a filled one holds.

Objects become groups of fields, named by their path; lists, maps and what has no plain kind are written as JSON. A list
of LangChain messages is one field: what a person says. A value that its field would not give back as it is stands there
as JSON, and an input that the fields together would not give back is one field, as JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.console.json_values import json_value
from services.console.message_words import common_beginning
from services.kit.text.json_text import json_text
from services.kit.text.words import A_MOMENT, parse_moment

# An object within an object within an object is still a group; one further down is JSON.
DEEPEST = 3
# A form of more is nobody's to fill in, and more than the console reads.
MOST_FIELDS = 50
LONG_TEXT = 300
# Before the name of a field that is written as JSON though its schema has another kind for it.
AS_JSON = "json."
MESSAGE = "Message"
YES_OR_NO: Mapping[str, Any] = {"yes": True, "no": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,309}")
_SENTENCE_END = re.compile(r"(?<=[.;]) +")
_NAME_IN_CONTRACT = re.compile(r"`[A-Z]\w*[a-z]|UNSPECIFIED|[A-Z]+_[A-Z]+")
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class InputField:
    """A field: its path from the input's beginning, and what it takes.

    `kind` is `text`, `long`, `number`, `choice`, `time`, `message` or `json`. `choices` are what a choice is sent as,
    and its words; `meant` is what each stands for. `mark` is sent along by a field that is JSON for its value's sake.
    """

    path: tuple[str, ...]
    kind: str
    help: str
    value: str
    is_required: bool
    choices: Sequence[tuple[str, str]] = ()
    most: int | None = None
    meant: Mapping[str, Any] = field(default_factory=dict)
    mark: str = ""

    @property
    def name(self) -> str:
        """Its name in the form."""
        return ".".join(("input", *self.path))

    @property
    def label(self) -> str:
        """What it is called on the page."""
        return ": ".join(part.replace("_", " ") for part in self.path) or "input"

    def as_json(self, value: Any) -> InputField:
        """Returns the field as one of JSON, with a value."""
        return replace(self, kind="json", value=json_text(value), mark=f"{AS_JSON}{self.name}")

    def sends(self) -> str:
        """Returns what a browser sends of the field as it is filled."""
        match self.kind:
            case "choice":
                return self.value if self.value in dict(self.choices) else ""
            case "long" | "message" | "json":
                return self.value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        return re.sub(r"[\r\n\0]", "", self.value)


def fields_of(schema: Schema, values: Mapping[str, Any]) -> list[InputField]:
    """Returns the fields of a form, filled with the values of an earlier input: it gives back all of them."""
    whole = _plain(schema, schema)
    fields = list(_fields(schema, whole, values, (), is_required=True))
    names = {each.name for each in fields}
    if 0 < len(names) == len(fields) <= MOST_FIELDS:
        held, _ = input_of(fields, {each.name: each.sends() for each in fields})
        if json_text(held) == json_text(values):
            return fields
    said = "" if fields else _help(str(whole.get("description", "")))
    return [replace(_ALL_OF_IT, help=said, value=json_text(values) if values else "")]


def as_written(fields: Sequence[InputField], form: Mapping[str, str]) -> list[InputField]:
    """Returns the fields that a form was sent with, and what is written in them."""
    if fields and _ALL_OF_IT.name in form:
        fields = [each for each in fields if not each.path] or [_ALL_OF_IT]
    kinds = [each.as_json(None) if f"{AS_JSON}{each.name}" in form else each for each in fields]
    return [replace(each, value=form.get(each.name, "")) for each in kinds]


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
            said = _help(str(given.get("description", "")))
            found = _field(root, inner, value, (*path, name), said, is_required=needed)
            yield found if name not in values or _gives_back(found, value) else found.as_json(value)


def _gives_back(filled: InputField, value: Any) -> bool:
    text = filled.sends()
    try:
        return bool(text.strip()) and json_text(_value(filled, text)) == json_text(value)
    except ValueError:
        return False


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


def _field(
    root: Schema, schema: Schema, value: Any, path: tuple[str, ...], said: str, *, is_required: bool
) -> InputField:
    if meant := {_text(each): each for each in schema.get("enum", ()) if each is not None}:
        beginning = common_beginning(list(meant))
        named = [(each, each.removeprefix(beginning).replace("_", " ").lower()) for each in meant]
        shown = [(each, words) for each, words in named if words != "unspecified"]
        return InputField(path, "choice", said, _text(value), is_required, shown, meant=meant)
    match schema.get("type"):
        case "boolean":
            chosen = next((name for name, meant in YES_OR_NO.items() if meant is value), "")
            shown = [(each, each) for each in YES_OR_NO]
            return InputField(path, "choice", said, chosen, is_required, shown, meant=YES_OR_NO)
        case "integer" | "number":
            return InputField(path, "number", said, _text(value), is_required)
        case "string" if schema.get("format") == "date-time":
            return InputField(path, "time", said, _text(value), is_required)
        case "string":
            most = schema.get("maxLength")
            kind = "long" if most is None or most >= LONG_TEXT else "text"
            return InputField(path, kind, said, _text(value), is_required, most=most)
        case "array" if path[-1] == "messages" or _plain(root, schema.get("items", {})).get("title") == MESSAGE:
            return InputField(path, "message", said, _said(value), is_required)
    return InputField(path, "json", said, "" if value is None else json_text(value), is_required)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text(value)


def _said(value: Any) -> str:
    """Returns what a person says in a message, where it is the only one."""
    message = value[0] if isinstance(value, list) and len(value) == 1 else None
    said = message.get("content") if isinstance(message, Mapping) else None
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
        if not each.path:
            values = value
            continue
        group = values
        for part in each.path[:-1]:
            group = group.setdefault(part, {})
        group[each.path[-1]] = value
    return values, problems


def _value(wanted: InputField, text: str) -> Any:
    match wanted.kind:
        case "choice":
            return wanted.meant.get(text, text)
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
            value = json_value(text)
            if not wanted.path and not isinstance(value, dict):
                raise ValueError("is no JSON object")
            return value
    return text


# The field of an input that is written as a whole.
_ALL_OF_IT = InputField((), "json", "", "", is_required=False)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise ValueError("not a number") from error
    if not math.isfinite(number):
        raise ValueError("not a number that can be sent")
    return int(text) if _WHOLE.fullmatch(text.strip()) else number
