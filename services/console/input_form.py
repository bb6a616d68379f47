"""A form of an agent's input, made from its JSON schema, and the input that a filled one holds.

Objects become groups of fields, named by their path; lists, maps and what has no plain kind are written as JSON. A list
of LangChain messages is one field: what a person says; as JSON where more was said. An input whose schema names no
fields is one field for all of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.console.json_values import json_value
from services.kit.text.json_text import json_text
from services.kit.text.words import A_MOMENT, parse_moment

# An object within an object within an object is still a group; one further down is JSON.
DEEPEST = 3
LONG_TEXT = 300
MESSAGE = "Message"
BY_PERSON = ("user", "human")
YES_OR_NO: Mapping[str, Any] = {"yes": True, "no": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_SENTENCE_END = re.compile(r"(?<=[.;]) +")
_NAME_IN_CONTRACT = re.compile(r"`[A-Z]\w*[a-z]|UNSPECIFIED|[A-Z]+_[A-Z]+")
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class InputField:
    """A field: its path from the input's beginning, and what it takes.

    `kind` is `text`, `long`, `number`, `choice`, `time`, `message`, `messages` or `json`; the last two are JSON.
    `choices` are what a choice is sent as, and its words; `meant` is what each stands for.
    """

    path: tuple[str, ...]
    kind: str
    help: str
    value: str
    is_required: bool
    choices: Sequence[tuple[str, str]] = ()
    most: int | None = None
    meant: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in the form."""
        return ".".join(("input", *self.path))

    @property
    def label(self) -> str:
        """What it is called on the page."""
        return ": ".join(part.replace("_", " ") for part in self.path) or "input"

    @property
    def is_json(self) -> bool:
        """Whether it is written as JSON."""
        return self.kind in ("json", "messages")


def fields_of(schema: Schema, values: Mapping[str, Any]) -> list[InputField]:
    """Returns the fields of a form, filled with the values of an earlier input."""
    whole = _plain(schema, schema)
    if not whole.get("properties"):
        return [InputField((), "json", _help(str(whole.get("description", ""))), _json(values), is_required=False)]
    return list(_fields(schema, whole, values, (), is_required=True))


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
            yield _field(root, inner, value, (*path, name), said, is_required=needed)


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
    if meant := {_text(each): each for each in schema.get("enum", ())}:
        beginning = _common_beginning(list(meant))
        named = [(each, each.removeprefix(beginning).replace("_", " ").lower()) for each in meant]
        shown = [(each, words) for each, words in named if words != "unspecified"]
        return InputField(path, "choice", said, _text(value), is_required, shown, meant=meant)
    match schema.get("type"):
        case "boolean":
            chosen = "" if value is None else "yes" if value else "no"
            shown = [(each, each) for each in YES_OR_NO]
            return InputField(path, "choice", said, chosen, is_required, shown, meant=YES_OR_NO)
        case "integer" | "number":
            return InputField(path, "number", said, _text(value), is_required)
        case "string" if schema.get("format") == "date-time":
            return InputField(path, "time", said, str(value or ""), is_required)
        case "string":
            most = schema.get("maxLength")
            kind = "long" if most is None or most >= LONG_TEXT else "text"
            return InputField(path, kind, said, str(value or ""), is_required, most=most)
        case "array" if path[-1] == "messages" or _plain(root, schema.get("items", {})).get("title") == MESSAGE:
            words = _said(value)
            if words is None:
                return InputField(path, "messages", said, _json(value), is_required)
            return InputField(path, "message", said, words, is_required)
    return InputField(path, "json", said, _json(value), is_required)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text(value)


def _json(value: Any) -> str:
    return "" if value in (None, [], {}) else json_text(value)


def _common_beginning(names: Sequence[str]) -> str:
    """Returns what all names of an enum begin with, up to a low line: it says nothing."""
    first = names[0].removesuffix("UNSPECIFIED")
    return first if first.endswith("_") and all(name.startswith(first) for name in names) else ""


def _said(value: Any) -> str | None:
    """Returns what a person says in messages that are nothing else; empty where there are none."""
    if value in (None, []):
        return ""
    if not isinstance(value, list) or len(value) > 1 or not isinstance(value[0], Mapping):
        return None
    [message] = value
    said, role = message.get("content"), message.get("role", message.get("type"))
    return said if isinstance(said, str) and role in BY_PERSON else None


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
        case "json" | "messages":
            value = json_value(text)
            if not wanted.path and not isinstance(value, dict):
                raise ValueError("no JSON object")
            return value
    return text


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise ValueError("not a number") from error
    if not math.isfinite(number):
        raise ValueError("not a number that can be sent")
    return int(text) if _WHOLE.fullmatch(text.strip()) else number
