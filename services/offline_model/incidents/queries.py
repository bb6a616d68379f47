"""The queries of an investigation: what changed among some services when an incident began, and since when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from services.offline_model.incidents.causes import Deviation
from services.offline_model.vocabulary import IncidentVocabulary

_TABLE = re.compile(r"- (?P<name>[\w.]+)\((?P<columns>.*)\);")
_COLUMN = re.compile(r"(?:^|, )(?P<name>\w+) (?P<type>[a-z][a-z ]*)")
_COMMENT = re.compile(r"/\*.*?\*/")
_DEPENDENCY = re.compile(r"\((?P<start>\w+)\)-\[(?P<type>\w*DEPEND\w*)\]->\((?P<end>\w+)\)", re.IGNORECASE)
_INSTANT: Final = "timestamp with time zone"
BEFORE: Final = timedelta(hours=4)
AFTER: Final = timedelta(hours=1)
# How much earlier than it was noticed an incident may have begun.
UNSURE: Final = timedelta(minutes=30)
RECENT: Final = timedelta(hours=2)


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


class Queries:
    """Queries about services around a moment; empty where there is no table for them."""

    def __init__(
        self, tables: Sequence[str], start: datetime, services: Sequence[str], words: IncidentVocabulary
    ) -> None:
        self._metrics = find_table(tables, words.service, words.metric, words.value)
        self._deployments = find_table(tables, words.service, words.version, words.summary)
        self._words = words
        self._start = start
        self._services = ", ".join(_quoted(name) for name in services)

    @property
    def deviations(self) -> str:
        """What differs between before and after by more than it ever does."""
        if self._metrics is None:
            return ""
        table, time, start = self._metrics.name, self._metrics.time, self._start
        service, metric, value = self._words.service, self._words.metric, self._words.value
        early, late = f"{time} < {_literal(start - UNSURE)}", f"{time} >= {_literal(start)}"
        before, after = f"avg({value}) FILTER (WHERE {early})", f"avg({value}) FILTER (WHERE {late})"
        return (
            f"SELECT {service} AS service, {metric} AS metric, round({before}::numeric, 2) AS before, "  # noqa: S608 - the executor checks it
            f"round({after}::numeric, 2) AS after, max({value}) FILTER (WHERE {late}) AS highest FROM {table} "
            f"WHERE {service} IN ({self._services}) AND {time} >= {_literal(start - BEFORE)} "
            f"AND {time} < {_literal(start + AFTER)} GROUP BY {service}, {metric} "
            f"HAVING abs({after} - {before}) > 4 * stddev({value}) FILTER (WHERE {early}) + 0.05 * abs({before}) "
            f"ORDER BY {service}, {metric}"
        )

    @property
    def deployments(self) -> str:
        """What was deployed in the hours before."""
        if self._deployments is None:
            return ""
        table, time, start = self._deployments.name, self._deployments.time, self._start
        service, version, summary = self._words.service, self._words.version, self._words.summary
        return (
            f"SELECT {service} AS service, {version} AS version, {time} AS deployed_at, {summary} AS summary "  # noqa: S608 - as above
            f"FROM {table} WHERE {service} IN ({self._services}) AND {time} >= {_literal(start - RECENT)} "
            f"AND {time} < {_literal(start)} ORDER BY {time}"
        )

    def onset(self, symptom: Deviation) -> str:
        """When a measurement first came half of its way."""
        if self._metrics is None:
            return ""
        table, time, words = self._metrics.name, self._metrics.time, self._words
        least = round((symptom.before + symptom.after) / 2, 2)
        return (
            f"SELECT {time} AS recorded_at, {words.value} AS value FROM {table} "  # noqa: S608 - as above
            f"WHERE {words.service} = {_quoted(symptom.service)} "
            f"AND {words.metric} = {_quoted(symptom.metric)} AND {words.value} > {least} "
            f"AND {time} >= {_literal(self._start - BEFORE)} ORDER BY {time} LIMIT 1"
        )


def _literal(time: datetime) -> str:
    return f"timestamptz '{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}+00'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
