"""What tools return, read from the texts that a model gets.

A result of `execute_db_query` is `rows: N`, a line `truncated: …` when it was cut, a header and a line for each row,
` | ` between its cells; one of `get_few_shot_examples` is pairs of `Question:` and `SQL:` lines, then notes as `- …`.
What a tool refuses is `error: reason: message`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from services.offline_model.prompt_data import NUMBERED, Example

_ROWS = re.compile(r"rows: (\d+)")
_TRUNCATED = re.compile(r"truncated: (.+)")
_ERROR = re.compile(r"error: (?P<reason>[\w.-]+): (?P<message>.*)", re.DOTALL)
_EXAMPLE = re.compile(
    r"^Question: (?P<question>[^\n]*)\nSQL: (?P<sql>(?:(?!\n\n|\nQuestion: ).)*)", re.MULTILINE | re.DOTALL
)
_NODE = re.compile(r"\((?P<label>\w+) (?P<key>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\") ")
_HEADING = re.compile(r"^(?P<path>\S+) lines \d+-\d+ of \d+")
_FILE = re.compile(r"^(?P<path>\S+\.ya?ml)\b", re.MULTILINE)


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
class CodeLine:
    """A line of a file."""

    file: str
    number: int
    text: str


def read_result(text: str) -> QueryResult | QueryError:
    """Reads a result of `execute_db_query`; what is none has no rows."""
    if error := _ERROR.match(text):
        return QueryError(error["reason"], error["message"].strip())
    first, *lines = text.split("\n")
    count = _ROWS.fullmatch(first)
    truncated = _TRUNCATED.fullmatch(lines[0]) if lines else None
    header, *rows = lines[1:] if truncated else lines or [""]
    columns = tuple(header.split(" | "))
    cells = [tuple(row.split(" | ")) if len(columns) > 1 else (row,) for row in rows]
    # A value that has such a bar in it could be any of the cells.
    whole = tuple(row for row in cells if len(row) == len(columns))
    return QueryResult(columns, whole, int(count[1]) if count else 0, truncated[1] if truncated else "")


def read_examples(text: str) -> list[Example]:
    """Reads the examples in a result of `get_few_shot_examples`."""
    return [Example(question=each["question"].strip(), sql=each["sql"].strip()) for each in _EXAMPLE.finditer(text)]


def read_paths(results: Iterable[str]) -> list[list[str]]:
    """Reads the paths in results of `query_graph`, as keys from node to node, the shortest first."""
    lines = (line for text in results for line in text.splitlines())
    paths = ([str(ast.literal_eval(node["key"])) for node in _NODE.finditer(line)] for line in lines)
    return sorted(filter(None, paths), key=len)


def read_files(results: Iterable[str]) -> list[str]:
    """Reads the paths of YAML files that `find_file` has found."""
    return [found["path"] for text in results for found in _FILE.finditer(text)]


def read_code(results: Iterable[str]) -> Iterator[CodeLine]:
    """Reads the lines of files that were read."""
    for text in results:
        file = ""
        for line in text.splitlines():
            if heading := _HEADING.match(line):
                file = heading["path"].strip('"')
            elif numbered := NUMBERED.match(line):
                yield CodeLine(file, int(numbered["number"]), numbered["text"])
