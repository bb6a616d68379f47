"""Answers in words, from a question and the table that its query gave; nothing is said that the table does not say."""

from __future__ import annotations

import re
from collections.abc import Set

from services.offline_model.data_questions.words import row_words
from services.offline_model.tool_results import QueryError, QueryResult, read_result
from services.offline_model.vocabulary import Vocabulary

MAX_ROWS_TOLD = 10
# Columns that say what a row is, besides what the rows of the tables are called.
_LEADING = frozenset(("name", "kind", "status"))
_ABSENT = frozenset(("", "null", "none"))
_COUNT = re.compile(
    r"\s*(?:please\s+)?(?P<how>how many|count|(?:what(?:'s| is)\s+)?the (?:total )?number of)\s+(?:all\s+)?(?:the\s+)?"
    r"(?P<what>\S+(?:\s+\S+?)*?)\s*[?.]*\s*",
    re.IGNORECASE,
)
_HAVE = re.compile(r"(?P<what>\S+)\s+(?P<who>do (?:i|we) have|are there)\b\s*(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_MY = re.compile(r"\bmy\b", re.IGNORECASE)
_ASKS_MORE = re.compile(r"\b(?:do|does|did|i|my|me)\b", re.IGNORECASE)
_COUNT_COLUMN = re.compile(r"count\s*\(", re.IGNORECASE)
_READ = re.compile(r"\b(?:FROM|JOIN)\s+(?:\w+\.)?(\w+)", re.IGNORECASE)
_IDENTIFIERS = re.compile(r"_id$|^id$")


def word_answer(question: str, sql: str, result_text: str, vocabulary: Vocabulary) -> str:
    """Says what a query's result says."""
    if not result_text.strip():
        return "There is no result to describe."
    result = read_result(result_text)
    if isinstance(result, QueryError):
        return f"The query failed ({result.reason}): {result.message}"
    if result.row_count == 0:
        return "No rows match the question."
    if len(result.columns) == 1 and len(result.rows) == 1 == result.row_count:
        return _one_value(question, sql, result) + _cut_note(result)
    return _rows(result, _LEADING | _rows_read(sql, vocabulary)) + _cut_note(result)


def _one_value(question: str, sql: str, result: QueryResult) -> str:
    value = result.rows[0][0]
    column = _spoken(result.columns[0])
    if value.lower() in _ABSENT:
        return f"There is no value for {column}: no rows match the question, or they have none."
    if value.isdecimal() and _COUNT_COLUMN.search(sql):
        return _counted(question, value) or f"The count is {value}."
    return f"The {column} is {value}."


def _counted(question: str, value: str) -> str:
    """Turns "How many X …?" and "Count X" into a sentence; empty when grammar would need more than moving words."""
    found = _COUNT.fullmatch(question)
    if found is None or value == "1":
        return ""
    what, is_how_many = found["what"], found["how"].lower() == "how many"
    if have := _HAVE.fullmatch(what):
        begin = "There are" if have["who"].lower() == "are there" else "You have"
        return f"{begin} {value} {have['what']} {have['rest']}".rstrip() + "."
    if is_how_many:
        return "" if _ASKS_MORE.search(what) else f"{value} {what}."
    return f"There are {value} {_MY.sub('your', what)}."


def _rows_read(sql: str, vocabulary: Vocabulary) -> set[str]:
    """What the rows are called of the tables that the statement reads."""
    return set(row_words(_READ.findall(sql), vocabulary).values())


def _rows(result: QueryResult, leading: Set[str]) -> str:
    told = [_row(result.columns, row, leading) for row in result.rows[:MAX_ROWS_TOLD]]
    if result.row_count == 1 and told:
        return f"One row: {told[0]}."
    if not told:
        return f"The query gave {result.row_count} rows."
    head = f"{result.row_count} rows"
    if len(told) < result.row_count:
        head += f", the first {len(told)} of them"
    return head + ":\n" + "\n".join(f"- {row}" for row in told)


def _row(columns: tuple[str, ...], row: tuple[str, ...], may_lead: Set[str]) -> str:
    """A row led by its name, the rest behind it: `Dawn Plover (temperature 12.5)`."""
    cells = list(zip(columns, row, strict=True))
    if len(cells) == 1:
        return cells[0][1]
    leading = next((cell for cell in cells if not _IDENTIFIERS.search(cell[0].lower())), cells[0])
    rest = ", ".join(f"{_spoken(column)} {_known(value)}" for column, value in cells if (column, value) != leading)
    lead = leading[1] if leading[0].lower() in may_lead else ""
    return f"{lead} ({rest})" if lead else ", ".join(f"{_spoken(column)} {_known(value)}" for column, value in cells)


def _known(value: str) -> str:
    return "unknown" if value.lower() in _ABSENT else value


def _cut_note(result: QueryResult) -> str:
    if not result.truncated:
        return ""
    return f"\nThe result was cut off ({_spoken(result.truncated)}), so there may be more."


def _spoken(name: str) -> str:
    return "result" if name.startswith("?") else name.replace("_", " ").strip()
