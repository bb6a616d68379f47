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
_HOW_MANY = re.compile(r"^\s*how many\s+(?P<rest>.+?)\s*\?*\s*$", re.IGNORECASE | re.DOTALL)
_COUNT = re.compile(
    r"^\s*(?:please\s+)?(?:count|(?:what(?:'s| is)|give me|tell me|show)?\s*(?:me\s+)?the (?:total )?number of)\s+"
    r"(?:all\s+)?(?:the\s+)?(?P<what>.+?)\s*[?.]*\s*$",
    re.IGNORECASE | re.DOTALL,
)
_VERB_FIRST = re.compile(
    r"^(?P<noun>\S+)\s+(?:do|does|did)\s+(?:i|we|you)\s+have\b\s*(?P<rest>.*)$", re.IGNORECASE | re.DOTALL
)
_ARE_THERE = re.compile(r"^(?P<what>.+?)\s+(?:are|is|were|was)\s+there\b\s*(?P<rest>.*)$", re.IGNORECASE | re.DOTALL)
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
    if value == "1":
        return ""
    if found := _HOW_MANY.match(question):
        rest = found["rest"]
        if have := _VERB_FIRST.match(rest):
            return f"You have {value} {have['noun']} {have['rest']}".rstrip() + "."
        if there := _ARE_THERE.match(rest):
            return f"There are {value} {there['what']} {there['rest']}".rstrip() + "."
        if re.search(r"\b(?:do|does|did|i|my|me)\b", rest, re.IGNORECASE):
            return ""
        return f"{value} {rest}."
    if found := _COUNT.match(question):
        what = re.sub(r"\bmy\b", "your", found["what"], flags=re.IGNORECASE)
        return f"There are {value} {what}."
    return ""


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
