"""Examples as templates: a question that differs from an example's in numbers, names, values and windows alone.

Where question and example say the same words in the same order, their statements are the same but for those parts. One
that stands in the example's statement just once is exchanged there; any other makes the example unfit.
"""

from __future__ import annotations

import re

from services.offline_model.data_questions.reading import QuestionReading, read_question
from services.offline_model.data_questions.tables import Schema
from services.offline_model.data_questions.words import plain_words
from services.offline_model.prompt_data import Example

_INTERVAL = "interval '{} {}s'"
# Characters that no statement has.
_PRIVATE = 0xE000


def filled_in(example: Example, question: str, schema: Schema) -> str:
    """Returns the example's statement with the parts of a question; empty where it does not fit."""
    text, values = schema.take_values(question)
    shown_text, shown_values = schema.take_values(example.question)
    asked, shown = read_question(text, schema.vocabulary), read_question(shown_text, schema.vocabulary)
    if _form(asked) != _form(shown) or len(values) != len(shown_values):
        return ""
    if values != shown_values and not _numbers_in(example.sql) <= _numbers_in(example.question):
        return ""  # a bound that the example's question does not show was chosen for the very thing it is about
    changes: list[tuple[str, str]] = []
    for old_value, new_value in zip(shown_values, values, strict=True):
        if new_value != old_value and new_value not in schema.siblings(old_value):
            return ""
        changes.append((f"'{old_value}'", f"'{new_value}'"))
    for old, new in zip(shown.names, asked.names, strict=True):
        changes.append((f"'{old}'", f"'{new.replace(chr(39), chr(39) * 2)}'"))
    for old_number, new_number in zip(_numbers(shown), _numbers(asked), strict=True):
        changes.append((old_number, new_number))
    if shown.window and asked.window:
        old_window, new_window = (_INTERVAL.format(w.amount, w.unit) for w in (shown.window, asked.window))
        changes.append((old_window, new_window))
    return _exchanged(example.sql, changes)


def _form(reading: QuestionReading) -> tuple[object, ...]:
    """What must be the same: the words in order, and what stands for what."""
    return (
        plain_words(reading.rest),
        [comparison.operator for comparison in reading.comparisons],
        [number.noun for number in reading.numbers],
        len(reading.names),
        reading.window is None,
        reading.top is None,
    )


def _numbers_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)", text))


def _numbers(reading: QuestionReading) -> list[str]:
    bounds = [value for comparison in reading.comparisons for value in comparison.values]
    return [*bounds, *(number.value for number in reading.numbers), *([str(reading.top)] if reading.top else [])]


def _exchanged(sql: str, changes: list[tuple[str, str]]) -> str:
    marks: dict[str, str] = {}
    for index, (old, new) in enumerate(changes):
        if old == new:
            continue
        whole = re.compile(rf"(?<![\w.'-]){re.escape(old)}(?![\w.'-])", re.IGNORECASE)
        if len(whole.findall(sql)) != 1:
            return ""
        mark = chr(_PRIVATE + index)
        sql, marks[mark] = whole.sub(mark, sql), new
    for mark, new in marks.items():
        sql = sql.replace(mark, new)
    return sql
