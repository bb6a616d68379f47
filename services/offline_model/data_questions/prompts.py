"""What the prompts and tool results of the data agent contain, read back from their text.

A `## Examples` section (or the result of `get_few_shot_examples`) holds pairs

    Question: How many devices are there?
    SQL: SELECT count(*) FROM devices

the SQL running to a blank line or the next label. Notes are lines that begin with `- ` or `Note: `. A result of
`execute_db_query` is a table under a header line, its cells parted by ` | ` (or by commas when it has no footer), with
`(N rows)` below it, or `rows: N` above it; `No rows.` when it is empty, and a line that says so when it was cut
(`truncated: …`, `The result was cut …`). A failure is `error: <reason>: message`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_HEADING = re.compile(r"^#{1,3}\s+(.+?)\s*$", re.MULTILINE)
_LABEL = re.compile(r"[ \t]*(?:[-*\d.]+[ \t]+)?(Question|SQL|Answer|Notes?):[ \t]*(.*)")
_SECTION = re.compile(r"^[^\S\n]*(Question|SQL|Result):", re.MULTILINE)
_FENCE = re.compile(r"^```\w*\s*|\s*```$")
_ROWS = re.compile(r"^\s*(?:rows:\s*(\d+)|\((\d+) rows?\))\s*$", re.IGNORECASE)
_NO_ROWS = re.compile(r"^\s*no rows\b", re.IGNORECASE)
_TRUNCATED = re.compile(r"^\s*(?:truncated:\s*(\S.*)|The result was (cut at .+?)(?:;.*)?)$", re.IGNORECASE)
_SHOWN = re.compile(r"^\s*Only the first \d+ rows are shown", re.IGNORECASE)
_ERROR = re.compile(r"^\s*error:\s*(?P<reason>[\w.-]+):\s*(?P<message>.*)", re.IGNORECASE | re.DOTALL)
_RULER = re.compile(r"^[\s|+:=-]+$")


@dataclass(frozen=True)
class Example:
    """A question and the SQL that answers it."""

    question: str
    sql: str


@dataclass(frozen=True)
class QueryError:
    """A refusal or failure of a query."""

    reason: str
    message: str


@dataclass(frozen=True)
class QueryResult:
    """Rows of a query as text; `row_count` counts all rows, also those that the text left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    row_count: int
    truncated: str


@dataclass(frozen=True)
class FormatRequest:
    """The three sections of a prompt that asks for an answer in words."""

    question: str
    sql: str
    result: str


def read_examples(text: str) -> tuple[Example, ...]:
    """Reads the question and SQL pairs of a prompt section or tool result."""
    return tuple(
        Example(" ".join(question.split()), _FENCE.sub("", sql.strip()).strip().rstrip(";"))
        for (asked, question), (given, sql) in pairwise(_labelled(text))
        if (asked, given) == ("Question", "SQL") and question.strip() and sql.strip()
    )


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    """Yields each label with what stands up to the next; a blank line or a heading ends a statement, too."""
    label, lines = "", [""]
    for line in text.split("\n"):
        found = _LABEL.match(line)
        ends = label == "SQL" and any(lines) and (not line.strip() or line.startswith("#"))
        if found or ends:
            yield label, "\n".join(lines)
            label, lines = (found[1], [found[2]]) if found else ("", [""])
        else:
            lines.append(line)
    yield label, "\n".join(lines)


def section(text: str, *titles: str) -> str:
    """Returns the text under the first heading whose title begins with one of these words; empty without one."""
    headings = list(_HEADING.finditer(text))
    for index, heading in enumerate(headings):
        if heading[1].lower().startswith(tuple(title.lower() for title in titles)):
            end = headings[index + 1].start() if index + 1 < len(headings) else len(text)
            return text[heading.end() : end]
    return ""


def read_format_request(text: str) -> FormatRequest:
    """Reads the sections `Question:`, `SQL:` and `Result:`, in this order; one that is missing is empty."""
    awaited, found = ["Question"], []
    for mark in _SECTION.finditer(text):
        if mark[1] in awaited:
            found.append(mark)
            awaited = ["SQL", "Result"] if mark[1] == "Question" else ["Result"] if mark[1] == "SQL" else []
    ends = [*(mark.start() for mark in found[1:]), len(text)]
    parts = {mark[1]: text[mark.end() : end].strip() for mark, end in zip(found, ends, strict=False)}
    return FormatRequest(
        parts.get("Question", ""), _FENCE.sub("", parts.get("SQL", "")).strip(), parts.get("Result", "")
    )


def read_result(text: str) -> QueryResult | QueryError:
    """Reads a result of `execute_db_query`."""
    if error := _ERROR.match(text):
        return QueryError(error["reason"], error["message"].strip())
    if _NO_ROWS.match(text):
        return QueryResult((), (), 0, "")
    count: int | None = None
    truncated = ""
    table: list[str] = []
    for line in text.splitlines():
        if found := _ROWS.match(line):
            count = int(found[1] or found[2])
        elif found := _TRUNCATED.match(line):
            truncated = (found[1] or found[2]).strip()
        elif line.strip() and not _RULER.match(line) and not _SHOWN.match(line):
            table.append(line)
    columns, rows = _read_table(table, commas=not re.search(r"^\(\d+ rows?\)$", text, re.MULTILINE))
    return QueryResult(columns, rows, len(rows) if count is None else count, truncated)


def _read_table(lines: list[str], *, commas: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if not lines:
        return (), ()
    if "|" in lines[0]:
        cells = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in lines]
    elif commas and "," in lines[0]:
        cells = [tuple(cell.strip() for cell in row) for row in csv.reader(lines)]
    else:
        cells = [(line.strip(),) for line in lines]
    width = len(cells[0])
    return cells[0], tuple(row for row in cells[1:] if len(row) == width)
