"""What the prompt of an investigation says: the incident, the tables, the graph."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

_TABLE = re.compile(r"^- (?P<name>[\w.]+)\((?P<columns>.*)\);", re.MULTILINE)
_COLUMN = re.compile(r"(?:^|, )(?P<name>\w+) (?P<type>[a-z][a-z ]*)")
_COMMENT = re.compile(r"/\*.*?\*/")
_DEPENDENCY = re.compile(r"\((?P<start>\w+)\)-\[(?P<type>\w*DEPEND\w*)\]->\((?P<end>\w+)\)", re.IGNORECASE)
_INSTANT: Final = "timestamp with time zone"
REFUTED: Final = "The answer was looked at again and refuted"


@dataclass(frozen=True)
class Incident:
    """An incident as the prompt has it."""

    service: str
    title: str
    started_at: datetime


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


def read_incident(text: str) -> Incident | None:
    """Reads the incident; None where there is none."""
    given = read_json(text)
    try:
        return Incident(str(given["service"]), str(given["title"]), datetime.fromisoformat(str(given["started_at"])))
    except (KeyError, ValueError):
        return None


def read_json(text: str) -> dict[str, Any]:
    """Reads a JSON object; what is none says nothing."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def find_table(system: str, *columns: str) -> Table | None:
    """Finds the table that has these columns and one of instants."""
    for table in _TABLE.finditer(system):
        found = {each["name"]: each["type"].strip() for each in _COLUMN.finditer(_COMMENT.sub("", table["columns"]))}
        times = [name for name, kind in found.items() if kind == _INSTANT]
        if times and found.keys() >= set(columns):
            return Table(table["name"], times[0])
    return None


def find_dependencies(system: str) -> Dependencies | None:
    """Finds the edge that leads from a service to what it depends on."""
    for edge in _DEPENDENCY.finditer(system):
        if edge["start"] == edge["end"]:
            return Dependencies(edge["start"], edge["type"])
    return None
