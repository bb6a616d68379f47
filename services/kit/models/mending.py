"""What is made of a model's record whose meaning is plain and whose form is not: mended by the record's JSON Schema.

There is no rule for a field here. Each type of a schema has one way in which values of other types become its own, and
what is not plain stays as it is, for validation to refuse and the model to be told. What was mended is counted by kind.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from services.kit.telemetry.metrics import MODEL_ANSWERS_MENDED, from_zero

Schema = Mapping[str, Any]


class Mend(StrEnum):
    """What was not in the form that was asked for."""

    PARTS = "parts"
    TEMPLATE_MARK = "template_mark"
    TOOL_NAME = "tool_name"
    CALL_FORM = "call_form"
    CALL_AS_TEXT = "call_as_text"
    ARGUMENTS = "arguments"
    PROSE = "prose"
    TYPE = "type"
    WRAPPING = "wrapping"
    NONE_SAID = "none_said"
    ABSENT_LIST = "absent_list"
    KEY = "key"
    EXTRA_KEY = "extra_key"
    WORD = "word"
    PERCENTAGE = "percentage"
    LOCATION = "location"
    TIME = "time"


from_zero(MODEL_ANSWERS_MENDED, list(Mend))

_NONE: Final = frozenset(
    {"", "none", "none found", "not applicable", "n/a", "na", "null", "nil", "nothing", "-", "keine", "nichts",
     "ninguno", "ninguna", "nada"}
)  # fmt: skip
_TRUE: Final = frozenset({"true", "yes", "y", "1", "ja", "wahr", "sí", "si", "verdadero"})
_FALSE: Final = frozenset({"false", "no", "n", "0", "nein", "falsch", "falso"})
_NUMBER = re.compile(r"(?:~|≈|about )?\s?(-?\d+(?:[.,]\d+)?)\s?(%|percent)?", re.IGNORECASE)
_OF = re.compile(r"(\d+(?:\.\d+)?)\s?(?:/|out of|of)\s?(\d+(?:\.\d+)?)", re.IGNORECASE)
_WHOLE = re.compile(r"(?:[^\n]{0,1024}:\s?|lines?\s|L)?(\d{1,12})(?:\.0{1,6})?", re.IGNORECASE)
_PLACE = re.compile(r"(?P<file>[^\n]*?):(?P<first>\d{1,9})(?:\s?[-\u2013:]\s?L?(?P<last>\d{1,9}))?")
_RANGE = re.compile(r"(?:lines?\s|L)?(\d{1,9})\s?(?:-|\u2013|to|\.\.)\s?L?(\d{1,9})", re.IGNORECASE)
_BULLET = re.compile(r"\s{0,8}(?:[-*•]|\d{1,3}[.)])\s+")
_LINES: Final = {
    "line": "first_line", "linenumber": "first_line", "lineno": "first_line", "lines": "first_line",
    "startline": "first_line", "endline": "last_line",
}  # fmt: skip
# What models call the name of a tool, and what it is called with.
TOOL_NAMES: Final = ("name", "tool", "tool_name", "function", "action", "recipient_name")
ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "params")
_NAMESPACE = re.compile(r"\A(?:functions?|tools?|default_api)[./:]{1,2}")
# Plain scales of a hundred; what is between 1 and 10 may be one of five or ten.
_SURELY_PERCENT: Final = 10
_HUNDRED: Final = 100
# More of nesting than any record has, and little enough to walk.
MOST_NESTED: Final = 30


def mended(value: Any, schema: Schema, *, keep_extra: bool = False) -> Any:
    """Returns a value in the form that a schema asks for, as far as what it means is plain.

    keep_extra: keys that the schema does not name stay, and lists that it needs stay away, for whoever refuses that.
    """
    return _Mender(schema.get("$defs") or {}, keep_extra=keep_extra).mend(value, schema)


def count(kind: Mend) -> None:
    """Counts an answer that was mended."""
    MODEL_ANSWERS_MENDED.labels(kind).inc()


class _Mender:
    """The table: a method for each type."""

    def __init__(self, definitions: Mapping[str, Schema], *, keep_extra: bool) -> None:
        self._definitions = definitions
        self._keep_extra = keep_extra
        self._depth = 0
        self._types: dict[str, Callable[[Any, Schema], Any]] = {
            "string": self._string,
            "number": self._number,
            "integer": self._integer,
            "boolean": self._boolean,
            "array": self._array,
            "object": self._object,
        }

    def mend(self, value: Any, schema: Schema) -> Any:
        schema = self._resolved(schema)
        if self._depth >= MOST_NESTED:
            return value
        self._depth += 1
        try:
            if options := _options(schema):
                return self._one_of(value, [self._resolved(option) for option in options])
            found = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
            if found:
                return self._word(value, found)
            mend = self._types.get(str(schema.get("type")))
            return mend(value, schema) if mend else value
        finally:
            self._depth -= 1

    def _resolved(self, schema: Any) -> Schema:
        """Returns what a schema refers to; nothing is asked by one that is a truth value, or that nobody knows."""
        for _ in range(MOST_NESTED):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            schema = self._definitions.get(str(schema["$ref"]).rpartition("/")[2])
        return schema if isinstance(schema, Mapping) else {}

    def _one_of(self, value: Any, options: Sequence[Schema]) -> Any:
        takes_none = any(option.get("type") == "null" for option in options)
        if takes_none and (value is None or _says_none(value)):
            return None if value is None else _counted(Mend.NONE_SAID, None)
        for option in options:
            if _is_of_type(value, option):
                return self.mend(value, option)
        for option in options:
            tried = self.mend(value, option)
            if tried is not value and _is_of_type(tried, option):
                return tried
        return value

    def _word(self, value: Any, words: Sequence[Any]) -> Any:
        said = self._unwrapped(value)
        if said in words or not isinstance(said, str):
            return said
        meant = [word for word in words if isinstance(word, str) and _letters(word) == _letters(said)]
        return _counted(Mend.WORD, meant[0]) if len(meant) == 1 else value

    def _string(self, value: Any, schema: Schema) -> Any:
        if isinstance(value, str):
            return _with_zone(value) if schema.get("format") == "date-time" else value
        if isinstance(value, bool):
            return _counted(Mend.TYPE, str(value).lower())
        if isinstance(value, int | float):
            return value if schema.get("format") else _counted(Mend.TYPE, json.dumps(value))
        text = _text_of(value)
        return value if text is None else _counted(Mend.WRAPPING, text)

    def _number(self, value: Any, schema: Schema) -> Any:
        said, is_share = self._unwrapped(value), schema.get("maximum") == 1
        found = _number_of(said) if isinstance(said, str) else None
        if found is not None:
            number, is_percentage = found
            said = _counted(Mend.PERCENTAGE if is_percentage else Mend.TYPE, number)
        if isinstance(said, bool) or not isinstance(said, int | float):
            return value
        if is_share and _SURELY_PERCENT < said <= _HUNDRED:
            return _counted(Mend.PERCENTAGE, said / _HUNDRED)
        return said

    def _integer(self, value: Any, _schema: Schema) -> Any:
        said = self._unwrapped(value)
        if isinstance(said, float) and said.is_integer():
            return _counted(Mend.TYPE, int(said))
        if isinstance(said, str) and (found := _WHOLE.fullmatch(said.strip())):
            return _counted(Mend.LOCATION if ":" in said else Mend.TYPE, int(found[1]))
        return said if isinstance(said, int) else value

    def _boolean(self, value: Any, _schema: Schema) -> Any:
        said = self._unwrapped(value)
        if isinstance(said, bool):
            return said
        word = _bare(str(said)) if isinstance(said, str | int) else ""
        if word in _TRUE or word in _FALSE:
            return _counted(Mend.TYPE, word in _TRUE)
        return value

    def _array(self, value: Any, schema: Schema) -> Any:
        items = self._resolved(schema.get("items") or {})
        found = value if isinstance(value, list) else self._listed(value, items, schema)
        if not isinstance(found, list):
            return value
        kept = [item for item in found if not (item is None or item == "")]
        if kept and not schema.get("minItems") and all(_says_none(item) for item in kept) and items.get("type"):
            kept = []
        if len(kept) < len(found):
            count(Mend.NONE_SAID)
        return [self.mend(item, items) for item in kept]

    def _listed(self, value: Any, items: Schema, schema: Schema) -> Any:
        """Returns a list that stands there as something else; the value itself where it is none."""
        if value is None or (_says_none(value) and not schema.get("minItems")):
            return _counted(Mend.NONE_SAID, [])
        if isinstance(value, Mapping):
            [*inner] = value.values()
            if len(inner) == 1 and isinstance(inner[0], list):
                return _counted(Mend.WRAPPING, inner[0])
            if items.get("type") == "object" or all(key.isdecimal() for key in value):
                numbered = all(key.isdecimal() for key in value)
                return _counted(Mend.WRAPPING, inner if numbered else [value])
            return value
        if isinstance(value, str):
            read = _json_in_string(value)
            if isinstance(read, list):
                return _counted(Mend.WRAPPING, read)
            lines = [line for line in value.splitlines() if line.strip()]
            if lines and all(_BULLET.match(line) for line in lines):
                return _counted(Mend.WRAPPING, [_BULLET.sub("", line, count=1).strip() for line in lines])
            return value if items.get("type") == "object" and read is None else _counted(Mend.WRAPPING, [value])
        return _counted(Mend.WRAPPING, [value])

    def _object(self, value: Any, schema: Schema) -> Any:
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        said = value
        if isinstance(said, str) and isinstance(read := _json_in_string(said), Mapping | list):
            said = _counted(Mend.WRAPPING, read)
        if isinstance(said, list) and len(said) == 1 and isinstance(said[0], Mapping):
            said = _counted(Mend.WRAPPING, said[0])
        if not isinstance(said, Mapping):
            return value
        if not properties:
            others = schema.get("additionalProperties")
            typed = isinstance(others, Mapping)
            return {key: self.mend(each, others) if typed and others else each for key, each in said.items()}
        named = _named_as(_inner(said, properties), properties)
        if {"file", "first_line", "last_line"} <= set(properties):
            named = _located(named)
        if {"tool", "arguments"} <= set(properties):
            named = _as_call(named)
        return self._filled(named, properties, schema)

    def _filled(self, said: Mapping[str, Any], properties: Mapping[str, Schema], schema: Schema) -> dict[str, Any]:
        required = schema.get("required") or ()
        made: dict[str, Any] = {}
        for name, value in said.items():
            field = self._resolved(properties.get(name) or {})
            if name not in properties and not self._keep_extra and schema.get("additionalProperties") is not True:
                count(Mend.EXTRA_KEY)
            elif value is None and name in properties and name not in required and not _takes_null(field):
                count(Mend.NONE_SAID)
            else:
                made[name] = self.mend(value, field) if name in properties else value
        for name, unresolved in properties.items():
            field = self._resolved(unresolved)
            if name in made or name not in required or self._keep_extra:
                continue
            if field.get("type") == "array" and not field.get("minItems"):
                made[name] = _counted(Mend.ABSENT_LIST, [])
        return made

    def _unwrapped(self, value: Any) -> Any:
        """Returns the one scalar that a list or an object is wrapped around; else the value."""
        inner = value
        if isinstance(value, Mapping) and len(value) == 1:
            [inner] = value.values()
        elif isinstance(value, list) and len(value) == 1:
            [inner] = value
        if inner is not value and isinstance(inner, str | int | float):
            return _counted(Mend.WRAPPING, inner)
        return value


def _counted(kind: Mend, value: Any) -> Any:
    count(kind)
    return value


def _options(schema: Schema) -> Sequence[Schema]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return [{**schema, "type": kind} for kind in kinds]
    options: Sequence[Schema] = schema.get("anyOf") or schema.get("oneOf") or ()
    return options if "properties" not in schema else ()


def _is_of_type(value: Any, schema: Schema) -> bool:
    if isinstance(kinds := schema.get("type"), list):
        return any(_is_of_type(value, {**schema, "type": kind}) for kind in kinds)
    return {
        "string": isinstance(value, str),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, Mapping),
        "null": value is None,
    }.get(str(schema.get("type")), value in schema.get("enum", ()))


def _takes_null(schema: Schema) -> bool:
    return any(option.get("type") == "null" for option in _options(schema)) or not schema


def _says_none(value: Any) -> bool:
    """Tells whether a value says in so many words that there is none: also an object all of whose values do."""
    if isinstance(value, Mapping):
        return all(each is None or _says_none(each) for each in value.values())
    return value == [] or (isinstance(value, str) and _bare(value) in _NONE)


def _bare(text: str) -> str:
    return text.strip().strip(".!\"'*`()[]").strip().lower()


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def _number_of(text: str) -> tuple[float, bool] | None:
    """Returns the number that a text is, and whether as a share of some other."""
    if found := _OF.fullmatch(text.strip()):
        whole = float(found[2])
        return (float(found[1]) / whole, True) if whole > 0 else None
    if found := _NUMBER.fullmatch(text.strip()):
        number = float(found[1].replace(",", "."))
        return (number / _HUNDRED, True) if found[2] else (number, False)
    return None


def _text_of(value: Any) -> str | None:
    """Returns the text that is wrapped in a list or an object; None where there is none."""
    if isinstance(value, Mapping):
        told = {key: each for key, each in value.items() if key != "type" or each != "text"}
        if not told or not all(isinstance(each, str | int | float) for each in told.values()):
            return None
        return str(next(iter(told.values()))) if len(told) == 1 else "; ".join(f"{k}: {v}" for k, v in told.items())
    if isinstance(value, list) and value:
        texts = [item if isinstance(item, str) else _text_of(item) for item in value]
        return None if None in texts else "\n".join(text for text in texts if text)
    return None


def _with_zone(text: str) -> str:
    """Returns a time with its zone; one without any is UTC, as all times are that prompts hold."""
    said = re.sub(r"\s?(?:UTC|GMT)$", "+00:00", text.strip())
    with suppress(ValueError):
        time = datetime.fromisoformat(said)
        # A date alone is no time.
        if len(said) > len("2026-01-01") and (time.tzinfo is None or said != text):
            return str(_counted(Mend.TIME, said if time.tzinfo else f"{said}+00:00"))
    return text


def _inner(said: Mapping[str, Any], properties: Mapping[str, Schema]) -> Mapping[str, Any]:
    """Returns the record inside an object that is named for it: `{"answer": {…}}`, `{"name": …, "arguments": {…}}`."""
    known = {_letters(name) for name in properties}
    if any(_letters(name) in known for name in said):
        return said
    for value in said.values():
        inside = _json_in_string(value) if isinstance(value, str) else value
        if isinstance(inside, Mapping) and any(_letters(str(name)) in known for name in inside):
            return dict(_counted(Mend.WRAPPING, inside))
    return said


def _named_as(said: Mapping[str, Any], properties: Mapping[str, Schema]) -> dict[str, Any]:
    """Returns an object whose keys are spelt as the schema has them: `isFinal` is `is_final`."""
    missing = {_letters(name): name for name in properties if name not in said}
    named: dict[str, Any] = {}
    for name, value in said.items():
        meant = missing.pop(_letters(name), None) if name not in properties else None
        named[_counted(Mend.KEY, meant) if meant else name] = value
    return named


def _located(said: dict[str, Any]) -> dict[str, Any]:
    """Returns a place in a file as file and lines: `app.py:19-21`, `"lines": "19-21"`, one line that has no last."""
    made = dict(said)
    for name in said:
        meant = _LINES.get(_letters(name))
        if meant and meant not in said and meant not in made:
            made[meant] = _counted(Mend.LOCATION, made.pop(name))
    file = made.get("file")
    if "first_line" not in made and isinstance(file, str) and (found := _PLACE.fullmatch(file.strip())):
        last = found["last"] or found["first"]
        made |= {"file": found["file"], "first_line": int(found["first"]), "last_line": int(last)}
        count(Mend.LOCATION)
    first = made.get("first_line")
    if isinstance(first, str) and (both := _RANGE.fullmatch(first.strip())):
        made["first_line"], made["last_line"] = int(both[1]), int(both[2])
        count(Mend.LOCATION)
    elif isinstance(first, list) and len(first) in (1, 2) and "last_line" not in made:
        made["first_line"], made["last_line"] = first[0], first[-1]
        count(Mend.LOCATION)
    if made.get("last_line") is None and isinstance(made.get("first_line"), int | str):
        made["last_line"] = _counted(Mend.LOCATION, made["first_line"])
    return made


def _as_call(said: dict[str, Any]) -> dict[str, Any]:
    """Returns a call that is handed in as a record, with its name and arguments as the record has them."""
    made = dict(said)
    for field, names in (("tool", TOOL_NAMES), ("arguments", ARGUMENTS)):
        meant = next((name for name in names if name in made), "")
        if field not in made and meant:
            made[field] = _counted(Mend.CALL_FORM, made.pop(meant))
    if isinstance(tool := made.get("tool"), str) and (bare := _NAMESPACE.sub("", tool)) != tool:
        made["tool"] = _counted(Mend.TOOL_NAME, bare)
    return made


def _json_in_string(text: str) -> Any:
    """Returns the object or list that a text is; None where it is no such thing."""
    if not text.strip().startswith(("{", "[")):
        return None
    try:
        found = load_json(text.strip())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


class KeyTwice(ValueError):
    """A JSON object names a key twice, and so says two things."""


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a JSON object of its pairs. Raises KeyTwice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, times)] = Counter(name for name, _ in pairs).most_common(1)
        raise KeyTwice(f"{name[:100]}: the key stands there {times} times")
    return found


class OddNumber(ValueError):
    """A number that neither checkpoints nor messages can hold."""


def _held(text: str) -> int | float:
    value = float(text)
    whole = text.lstrip("-").isdecimal()
    if not math.isfinite(value) or (whole and abs(value) >= 2**63):
        raise OddNumber("a number that no tool takes")
    return int(text) if whole else value


_DECODER = json.JSONDecoder(
    object_pairs_hook=each_key_once, parse_int=_held, parse_float=_held, parse_constant=_held, strict=False
)


def load_json(text: str) -> Any:
    """Returns JSON whose keys stand once and whose numbers can be kept. Raises ValueError, RecursionError."""
    return _DECODER.decode(text)


# Braces in prose that are no object.
_MOST_TRIED: Final = 100
_LONGEST_LITERAL: Final = 20_000


def objects_in(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields where a JSON object begins and ends in a text, and the object, of each that stands there.

    Where there is none in JSON, one that is written as Python is one. Raises KeyTwice, OddNumber, RecursionError.
    """
    position, found = text.find("{"), False
    for _ in range(_MOST_TRIED):
        if position < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (KeyTwice, OddNumber):
            raise
        except ValueError:
            end = position + 1
        else:
            found = True
            yield position, end, value
        position = text.find("{", end)
    start, end = text.find("{"), text.rfind("}")
    if not found and 0 <= start < end < start + _LONGEST_LITERAL:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(text[start : end + 1])
            if isinstance(value, dict) and all(isinstance(key, str) for key in value):
                yield start, end + 1, value
