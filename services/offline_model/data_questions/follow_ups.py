"""Follow-up questions of a thread ("and for humidity?", "and above 20?") made whole with the question before them.

A follow-up exchanges one thing that the question before has exactly one of: a column, a bound, a window, a name, a
numbered thing, or a value of a kind. What exchanges anything else is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.offline_model.data_questions.reading import COMPARISONS, NAME, WINDOW, read_question
from services.offline_model.data_questions.schema import Schema
from services.offline_model.data_questions.words import content_words

_FOLLOW_UP = re.compile(
    r"^\s*(?:(?:ok(?:ay)?|so|then),?\s+)?"
    r"(?:and(?:\s+(?:what|how)\s+about)?|(?:what|how)\s+about|or|the same(?:\s+question)?|same)\b"
    r"(?:\s+(?:for|with|of|on|in|over|only))*\s+(?P<rest>.+?)\s*[?.!]*\s*$",
    re.IGNORECASE | re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"\b([^\W\d_]+)\s+(\d+)\b")


def whole_question(question: str, earlier: Sequence[str], schema: Schema) -> str | None:
    """Returns a question as it would be asked without a thread; None for a follow-up that is not understood."""
    whole: str | None = None
    for asked in (*earlier, question):
        found = _FOLLOW_UP.match(asked)
        if found is None:
            whole = asked
        elif whole is not None:
            whole = _merged(whole, found["rest"], schema)
    return whole


def _merged(before: str, rest: str, schema: Schema) -> str | None:
    for merged in _exchanges(before, rest, schema):
        return merged
    return None


def _exchanges(before: str, rest: str, schema: Schema) -> Iterator[str]:
    yield from _bound(before, rest, schema)
    if read_question(rest, schema.vocabulary).comparisons:
        return  # a bound on another column: no part of the question before is meant
    for pattern in (WINDOW, NAME):
        yield from _only_match(pattern, before, rest, schema)
    yield from _numbered(before, rest)
    yield from _column(before, rest, schema)
    yield from _value(before, rest, schema)


def _bound(before: str, rest: str, schema: Schema) -> Iterator[str]:
    """`and above 20`: the bound, where there is just one and the follow-up is nothing else."""
    new = [match for pattern in COMPARISONS for match in pattern.finditer(rest)]
    old = [match for pattern in COMPARISONS for match in pattern.finditer(before)]
    if len(new) == 1 and len(_outermost(old)) == 1 and not _words(rest.replace(new[0][0], " "), schema):
        yield _exchanged(before, _outermost(old)[0], new[0][0])


def _outermost(matches: list[re.Match[str]]) -> list[re.Match[str]]:
    """Matches that lie in no other one: `at least 5` is no `5`."""
    return [
        match
        for match in matches
        if not any(
            other is not match and other.start() <= match.start() and match.end() <= other.end() for other in matches
        )
    ]


def _only_match(pattern: re.Pattern[str], before: str, rest: str, schema: Schema) -> Iterator[str]:
    """`and over the last 3 days`, `and on the Iron Gannet`: the one such part."""
    new, old = list(pattern.finditer(f" {rest}")), list(pattern.finditer(before))
    if len(new) == len(old) == 1 and not _words(f" {rest}".replace(new[0][0], " "), schema):
        yield _exchanged(before, old[0], new[0][0].strip())


def _numbered(before: str, rest: str) -> Iterator[str]:
    """`and device 40`: the thing of that kind."""
    new = _NUMBERED.fullmatch(rest)
    old = [match for match in _NUMBERED.finditer(before) if new is not None and match[1].lower() == new[1].lower()]
    if new is not None and len(old) == 1:
        yield _exchanged(before, old[0], new[0])


def _column(before: str, rest: str, schema: Schema) -> Iterator[str]:
    """`and for humidity`: the one column that the question names in a word of its own."""
    new = _words(rest, schema)
    if len(new) != 1 or new[0] not in schema.columns:
        return
    old = [match for match in _WORD.finditer(before) if set(_words(match[0], schema)) & schema.columns.keys()]
    if len(old) == 1 and len(_words(old[0][0], schema)) == 1:
        yield _exchanged(before, old[0], new[0])


def _value(before: str, rest: str, schema: Schema) -> Iterator[str]:
    """`and retired`: the one value of the same kind."""
    phrase = re.sub(r"^(?:the|my)\s+", "", rest.strip().lower())
    for values in schema.enumerations:
        spelt = {value.replace("_", " ") for value in values}
        old = [match for value in spelt for match in re.finditer(rf"\b{re.escape(value)}\b", before, re.IGNORECASE)]
        if phrase in spelt and len(old) == 1:
            yield _exchanged(before, old[0], phrase)


def _words(text: str, schema: Schema) -> list[str]:
    return content_words(text, schema.vocabulary)


def _exchanged(text: str, old: re.Match[str], new: str) -> str:
    return text[: old.start()] + new + text[old.end() :]
