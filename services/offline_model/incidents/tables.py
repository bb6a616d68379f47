"""Which table and which edge of the graph an investigation can go by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_TABLE = re.compile(r"- (?P<name>[\w.]+)\((?P<columns>.*)\);")
_COLUMN = re.compile(r"(?:^|, )(?P<name>\w+) (?P<type>[a-z][a-z ]*)")
_COMMENT = re.compile(r"/\*.*?\*/")
_DEPENDENCY = re.compile(r"\((?P<start>\w+)\)-\[(?P<type>\w*DEPEND\w*)\]->\((?P<end>\w+)\)", re.IGNORECASE)
_INSTANT: Final = "timestamp with time zone"


@dataclass(frozen=True)
class Table:
    """A table by its name, and its column of instants."""

    name: str
    time: str


@dataclass(frozen=True)
class Dependencies:
    """How the graph says what depends on what: a label, and a type of edge."""

    label: str
    type: str


def find_table(tables: Iterable[str], *columns: str) -> Table | None:
    """Finds the table that has these columns and one of instants."""
    for table in filter(None, map(_TABLE.match, tables)):
        found = {each["name"]: each["type"].strip() for each in _COLUMN.finditer(_COMMENT.sub("", table["columns"]))}
        times = [name for name, kind in found.items() if kind == _INSTANT]
        if times and found.keys() >= set(columns):
            return Table(table["name"], times[0])
    return None


def find_dependencies(graph: Iterable[str]) -> Dependencies | None:
    """Finds the edge that leads from a service to what it depends on."""
    edges = (edge for line in graph for edge in _DEPENDENCY.finditer(line))
    return next((Dependencies(edge["start"], edge["type"]) for edge in edges if edge["start"] == edge["end"]), None)
