"""What an operator has masked: rules by pattern or by the name of a field, and what they make of texts and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import re2
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints, model_validator

from services.kit.text.policy_file import load_policy_file

MOST_RULES = 100
LONGEST_PATTERN = 1_000
# Of a text with more than so many matches nothing is left; of an answer with more, nothing of its content.
MOST_MATCHES_OF_TEXT = 1_000
MOST_MATCHES_OF_ANSWER = 20_000
DEEPEST = 100
# What may stand before JSON without being of it.
_BEFORE_JSON = " \t\r\n\ufeff"
_SURROGATES = re.compile("[\ud800-\udfff]")
# What stands for the content of an answer that marks would make too large.
WITHHELD = "[redacted: too much for one answer]"
# What it takes on the wire, with the message that it may need around it.
_WITHHELD_BYTES = len(WITHHELD) + 32
# Names of fields, from the answer's own to the innermost.
Place = tuple[str, ...]


class RedactionRule(BaseModel):
    """One thing that is masked: what a pattern (RE2) finds in any text, or whatever stands in a field of this name.

    A field is named by the end of its path, such as `email` or `customer.email`: of state, arguments and results, of
    the columns of a table, of the contract's messages. `masked_for` is everyone, or others: not who sees no runs but
    their own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    pattern: str = Field("", max_length=LONGEST_PATTERN)
    field: str = Field("", max_length=LONGEST_PATTERN, pattern=r"^([^.\s]+(\.[^.\s]+)*)?$")
    masked_for: Literal["everyone", "others"] = "everyone"
    _compiled: Any = PrivateAttr(None)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.pattern) == bool(self.field):
            raise ValueError("give either a pattern or a field")
        if self.pattern:
            options = re2.Options()
            options.log_errors = False
            try:
                self._compiled = re2.compile(self.pattern, options)
            except re2.error as error:
                said = error.args[0]
                told = said.decode(errors="replace") if isinstance(said, bytes) else said
                raise ValueError(f"not a pattern of RE2: {told}") from error
            if any(found.start() == found.end() for text in ("", " a1") for found in self._compiled.finditer(text)):
                raise ValueError("the pattern matches where there is nothing, and so would mask between all letters")
        return self

    @property
    def mark(self) -> str:
        """What stands in the place of what is masked."""
        return f"[redacted: {self.name}]"

    def sub(self, text: str) -> tuple[str, int]:
        """Returns a text with what the pattern finds masked, and how often it did; whole where that is too often."""
        readable = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)  # RE2 takes none
        if self._compiled is None or self._compiled.search(readable) is None:
            return text, 0
        masked, count = self._compiled.subn(lambda _: self.mark, readable, count=MOST_MATCHES_OF_TEXT + 1)
        return (self.mark if count > MOST_MATCHES_OF_TEXT else masked), count


class RedactionRules(BaseModel):
    """The file of an operator's rules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[RedactionRule, ...] = Field(max_length=MOST_RULES)

    @model_validator(mode="after")
    def _names_are_each_once(self) -> Self:
        names = [rule.name for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two rules are called {', '.join(twice)}")
        return self

    def holding(self, *, is_own: bool) -> Sequence[RedactionRule]:
        """Returns the rules that hold for whoever sees no runs but their own, or for anybody else."""
        return [rule for rule in self.rules if not is_own or rule.masked_for == "everyone"]


def load_redaction_rules(path: Path) -> RedactionRules:
    """Reads a file of rules. Raises PolicyFileError."""
    return load_policy_file(path, RedactionRules)


class TooMuch(Exception):
    """The marks of an answer take more room than it has."""


class Masking:
    """The masking of one answer: texts and JSON by some rules, with so many bytes of marks. All raise TooMuch."""

    def __init__(self, rules: Sequence[RedactionRule], *, room: int) -> None:
        self._patterns = [rule for rule in rules if rule.pattern]
        self._fields = {tuple(rule.field.lower().split(".")): rule for rule in rules if rule.field}
        self._longest = max(map(len, self._fields), default=0)
        self._left = MOST_MATCHES_OF_ANSWER
        self._room = room

    def mark_of(self, path: Place) -> str | None:
        """Returns what stands for all that a field holds, where a rule names it by the end of its path."""
        for length in range(1, min(self._longest, len(path)) + 1):
            if rule := self._fields.get(tuple(part.lower() for part in path[-length:])):
                return self._put(rule)
        return None

    def text(self, text: str, path: Place = ()) -> str:
        """Returns a text masked, also where it is JSON itself."""
        started = text.lstrip(_BEFORE_JSON)
        if started[:1] in ("{", "[", '"'):
            masked = self._json_text(started, path)
            text = text if masked == started else masked
        for rule in self._patterns:
            if self._left <= 0:
                return self._put(rule)
            text, count = rule.sub(text)
            self._left -= count
            self._put(rule, count)
        return text

    def value(self, value: Any, path: Place = ()) -> Any:
        """Returns a value of JSON masked. Raises RecursionError."""
        if (mark := self.mark_of(path)) is not None:
            return mark
        if len(path) > DEEPEST:
            raise RecursionError
        if isinstance(value, str):
            return self.text(value, path)
        if isinstance(value, list):
            return [self.value(each, path) for each in value]
        if isinstance(value, dict):
            return self._object(value, path)
        if isinstance(value, bool) or value is None:
            return value
        return self.number(value)

    def number(self, number: float) -> Any:
        """Returns a number, or what stands for it where a pattern finds something in it."""
        # Those of JSON are floats in the contract.
        whole = isinstance(number, float) and number.is_integer()
        text = str(int(number)) if whole else json.dumps(number)
        masked = self.text(text)
        return number if masked == text else masked

    def _put(self, rule: RedactionRule, times: int = 1) -> str:
        """Returns a rule's mark, with the room for it taken."""
        self._room -= len(rule.mark) * times
        if self._room < 0:
            raise TooMuch
        return rule.mark

    def _object(self, value: dict[str, Any], path: Place) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for name, each in value.items():
            key = shown = self.text(name)
            while key in masked or (key != name and key in value):
                numbers[shown] = numbers.get(shown, 1) + 1
                key = f"{shown} {numbers[shown]}"
            masked[key] = self.value(each, (*path, name))
        return masked

    def _json_text(self, text: str, path: Place) -> str:
        """Returns JSON masked, and what is no JSON as it is; of JSON that can't be read whole nothing is left."""
        try:
            value = json.loads(text, strict=False, object_pairs_hook=_each_once)
            masked = self.value(value, path)
        except json.JSONDecodeError:
            return text
        except (ValueError, RecursionError):
            return next((self._put(rule) for rule in (*self._fields.values(), *self._patterns)), "")
        return text if masked == value else written_json(masked)


class Withholding(Masking):
    """Leaves nothing of an answer's content, and makes it larger by no more than `room`.

    So that it is said, a notice stands wherever there is room for it.
    """

    def text(self, text: str, path: Place = ()) -> str:  # noqa: ARG002 - as Masking's
        """Returns what stands for a text."""
        self._room += len(text.encode())
        return self._notice() if text else ""

    def value(self, value: Any, path: Place = ()) -> Any:
        """Returns what stands for a value of JSON."""
        if isinstance(value, str):
            return self.text(value, path)
        notice = self._notice()
        if isinstance(value, dict):
            return {"redacted": notice} if notice else {}
        if isinstance(value, list):
            return [notice] if notice else []
        return notice or None

    def _put(self, rule: RedactionRule, times: int = 1) -> str:  # noqa: ARG002 - as Masking's
        return self._notice()

    def _notice(self) -> str:
        if self._room < _WITHHELD_BYTES:
            return ""
        self._room -= _WITHHELD_BYTES
        return WITHHELD


def written_json(value: Any) -> str:
    """Returns a value as JSON; halves of characters, which no text of the contract can hold, are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if _SURROGATES.search(text) else text


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object. Of a name that stands in it twice one value would get lost: raises ValueError."""
    held = dict(pairs)
    if len(held) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return held
