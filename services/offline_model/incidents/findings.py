"""What the tools of an investigation have brought so far."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from services.offline_model.conversation import CallMade
from services.offline_model.data_questions.prompts import QueryResult, read_result

_NODE = re.compile(r"\((?P<label>\w+) (?P<key>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\") ")
_HEADING = re.compile(r"^(?P<path>\S+) lines \d+-\d+ of \d+", re.MULTILINE)
_LINE = re.compile(r"^\s*(?P<number>\d+) \| (?P<text>.*)$")
_SETTING = re.compile(r"^\s*(?P<name>[\w.-]+):\s*(?P<value>[^#]*[^#\s])")
_FILE = re.compile(r"^(?P<path>\S+\.ya?ml)\b", re.MULTILINE)

Row = Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """A line of configuration."""

    file: str
    line: int
    name: str
    value: str
    text: str


@dataclass
class Graph:
    """Who depends on whom, as far as it was read."""

    edges: dict[str, list[str]] = field(default_factory=dict)

    def below(self, service: str) -> set[str]:
        """Everything that a service depends on, also by way of others."""
        found: set[str] = set()
        waiting = deque([service])
        while waiting:
            for other in self.edges.get(waiting.popleft(), ()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found

    def way(self, start: str, end: str) -> list[str]:
        """The shortest way from one service to another; empty without one."""
        waiting, seen = deque([[start]]), {start}
        while waiting:
            path = waiting.popleft()
            if path[-1] == end:
                return path
            for other in self.edges.get(path[-1], ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append([*path, other])
        return []


def read_graph(calls: Iterable[CallMade]) -> Graph:
    """Reads the paths that searches of the graph have found."""
    graph = Graph()
    for call in calls:
        for line in (call.result or "").splitlines():
            keys = [str(ast.literal_eval(node["key"])) for node in _NODE.finditer(line)]
            for start, end in pairwise(keys):
                others = graph.edges.setdefault(start, [])
                if end not in others:
                    others.append(end)
    return graph


def read_rows(call: CallMade) -> list[Row]:
    """Reads the rows of a query's result; none of one that was refused."""
    result = read_result(call.result or "")
    if not isinstance(result, QueryResult):
        return []
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def read_files(calls: Iterable[CallMade]) -> list[str]:
    """Reads the paths that searches for files have found."""
    return [found["path"] for call in calls for found in _FILE.finditer(call.result or "")]


def read_settings(calls: Iterable[CallMade]) -> list[Setting]:
    """Reads the lines of configuration files that were read; comments are none."""
    found = []
    for call in calls:
        file = ""
        for line in (call.result or "").splitlines():
            if heading := _HEADING.match(line):
                file = heading["path"].strip('"')
            elif (numbered := _LINE.match(line)) and (setting := _SETTING.match(numbered["text"])):
                text = numbered["text"].strip()
                found.append(Setting(file, int(numbered["number"]), setting["name"], setting["value"], text))
    return found


def instant(text: str) -> datetime | None:
    """Reads an instant; None of what is none."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if found.tzinfo else None


def number(text: str) -> float:
    """Reads a number; 0 of what is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0
