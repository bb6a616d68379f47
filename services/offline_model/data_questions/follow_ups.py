"""Follow-up questions of a thread ("and for humidity?", "and above 20?") made whole with the question before them.

A follow-up exchanges one thing that the question before has exactly one of: a column, a bound, a window, a name, a
numbered thing, or a value of a kind. What exchanges anything else is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.offline_model.data_questions.reading import COMPARISONS, NAME, WINDOW, read_question
from services.offline_model.data_questions.tables import Schema
from services.offline_model.data_questions.words import content_words

_FOLLOW_UP = re.compile(
    r"^\s*(?:(?:ok(?:ay)?|so|then),?\s+)?"
    r"(?:and(?:\s+(?:what|how)\s+about)?|(?:what|how)\s+about|or|the same(?:\s+question)?|same)\b"
    r"(?:\s+(?:for|with|of|on|in|over|only))*\s+(?P<rest>.+?)\s*[?.!]*\s*$",
    re.IGNORECASE | re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"\b([^\W\d_]+)\s+(\d+)\b")
Part = tuple[int, int, str]


def whole_question(question: str, earlier: Sequence[str], schema: Schema) -> str | None:
    """Returns a question as it would be asked without a thread; None for a follow-up that is not understood."""
    whole: str | None = None
    for asked in (*earlier, question):
        found = _FOLLOW_UP.match(asked)
        if found is None:
            whole = asked
        elif whole is not None:
            start, end, new = next(_exchanges(whole, found["rest"], schema), (0, 0, ""))
            whole = whole[:start] + new + whole[end:] if new else None
    return whole


def _exchanges(before: str, rest: str, schema: Schema) -> Iterator[Part]:
    """Yields the part of the question before that the follow-up stands for, and what it becomes."""
    bounds = [[match for pattern in COMPARISONS for match in pattern.finditer(text)] for text in (before, rest)]
    yield from _only(_outermost(bounds[0]), bounds[1], rest, schema)
    if read_question(rest, schema.vocabulary).comparisons:
        return  # a bound on another column: no part of the question before is meant
    for pattern in (WINDOW, NAME):
        yield from _only(list(pattern.finditer(before)), list(pattern.finditer(f" {rest}")), rest, schema)
    thing = _NUMBERED.fullmatch(rest)
    things = [match for match in _NUMBERED.finditer(before) if thing and match[1].lower() == thing[1].lower()]
    if thing and len(things) == 1:
        yield *things[0].span(), thing[0]
    yield from _column(before, rest, schema)
    yield from _value(before, rest, schema)


def _only(old: list[re.Match[str]], new: list[re.Match[str]], rest: str, schema: Schema) -> Iterator[Part]:
    """The one such part, where the follow-up is nothing else."""
    if len(old) == len(new) == 1 and not _words(f" {rest}".replace(new[0][0], " "), schema):
        yield *old[0].span(), new[0][0].strip()


def _column(before: str, rest: str, schema: Schema) -> Iterator[Part]:
    said = _words(rest, schema)
    named = [match for match in _WORD.finditer(before) if set(_words(match[0], schema)) & schema.columns.keys()]
    if len(said) == 1 and said[0] in schema.columns and len(named) == 1 and len(_words(named[0][0], schema)) == 1:
        yield *named[0].span(), said[0]


def _value(before: str, rest: str, schema: Schema) -> Iterator[Part]:
    _, values = schema.take_values(before)
    phrase = re.sub(r"^(?:the|my)\s+", "", rest.strip().lower()).replace(" ", "_")
    if len(values) == 1 and phrase in schema.siblings(values[0]):
        for match in re.finditer(re.escape(values[0].replace("_", " ")), before, re.IGNORECASE):
            yield *match.span(), phrase.replace("_", " ")


def _outermost(matches: list[re.Match[str]]) -> list[re.Match[str]]:
    """Matches that lie in no other one: `at least 5` is no `5`."""
    return [
        match
        for match in matches
        if not any(
            other is not match and other.start() <= match.start() and match.end() <= other.end() for other in matches
        )
    ]


def _words(text: str, schema: Schema) -> list[str]:
    return content_words(text, schema.vocabulary)
