"""What the tools of an investigation have brought so far."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.offline_model.tool_results import QueryResult, read_code, read_edges, read_result

_SETTING = re.compile(r"^\s*(?P<name>[\w.-]+):\s*(?P<value>[^#]*[^#\s])")

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
        return {other for other, way in self._ways(service).items() if len(way) > 1}

    def way(self, start: str, end: str) -> list[str]:
        """The shortest way from one service to another; empty without one."""
        return self._ways(start).get(end, [])

    def _ways(self, start: str) -> dict[str, list[str]]:
        ways, waiting = {start: [start]}, deque([start])
        while waiting:
            at = waiting.popleft()
            for other in self.edges.get(at, ()):
                if other not in ways:
                    ways[other] = [*ways[at], other]
                    waiting.append(other)
        return ways


def read_graph(results: Iterable[str]) -> Graph:
    """Reads the paths that searches of the graph have found."""
    graph = Graph()
    for start, end in dict.fromkeys(read_edges(results)):
        graph.edges.setdefault(start, []).append(end)
    return graph


def read_rows(text: str) -> list[Row]:
    """Reads the rows of a query's result; none of one that was refused."""
    result = read_result(text)
    if not isinstance(result, QueryResult):
        return []
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def read_settings(results: Iterable[str]) -> list[Setting]:
    """Reads the lines of configuration files that were read; comments are none."""
    return [
        Setting(line.file, line.number, setting["name"], setting["value"], line.text.strip())
        for line in read_code(results)
        if (setting := _SETTING.match(line.text))
    ]


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
