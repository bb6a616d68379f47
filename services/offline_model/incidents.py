"""Incidents: queries for what changed when one began, and what is the matter at a service by their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from services.offline_model.tool_results import CodeLine
from services.offline_model.vocabulary import IncidentVocabulary

# A deployment this long before is what went wrong; a longer one would have shown.
SOON: Final = timedelta(hours=1)
# Measurements come some minutes apart, so that what happened is seen a little later.
LATE: Final = timedelta(minutes=10)
FULL: Final = 99.0
_SETTING = re.compile(r"^\s*(?P<name>[\w.-]+):\s*(?P<value>[^#]*[^#\s])")

Row = Mapping[str, str]


@dataclass(frozen=True)
class Cause:
    """A cause, what to do about it, and what shows it: what rose, a line of configuration, a deployment."""

    words: str
    confidence: float
    advice: str
    measured: Row | None = None
    setting: CodeLine | None = None
    deployment: Row | None = None


@dataclass(frozen=True)
class Service:
    """A service when an incident began: what rose there, by metric, its configuration, and what was deployed."""

    name: str
    onset: datetime
    rose: Mapping[str, Row]
    lines: Sequence[CodeLine]
    deployed: Sequence[Row]

    def cause(self, words: IncidentVocabulary) -> Cause | None:
        """Returns what is the matter, the most specific first; None where nothing shows it."""
        return self._expired(words) or self._full(words) or self._used_up(words) or self._deployed()

    def _settings(self) -> Iterable[tuple[CodeLine, str, str]]:
        found = ((line, _SETTING.match(line.text)) for line in self.lines if self.name in line.file.split("/"))
        return ((line, setting["name"], setting["value"]) for line, setting in found if setting)

    def _expired(self, words: IncidentVocabulary) -> Cause | None:
        for line, name, value in self._settings():
            ended = instant(value) if "expire" in name else None
            if ended and words.refused in self.rose and self.onset - SOON <= ended <= self.onset + LATE:
                told = f"What {self.name} signs in with expired at {value}, and it has been refused since."
                return Cause(told, 0.9, f"Renew what {self.name} signs in with.", self.rose[words.refused], line)
        return None

    def _full(self, words: IncidentVocabulary) -> Cause | None:
        disk = self.rose.get(words.disk)
        if disk is None or number(disk["highest"]) < FULL:
            return None
        return Cause(f"The disk of {self.name} is full.", 0.85, f"Free or add space at {self.name}.", disk)

    def _used_up(self, words: IncidentVocabulary) -> Cause | None:
        used = self.rose.get(words.connections)
        for line, name, value in self._settings():
            if used and name == words.pool and number(used["highest"]) >= number(value) > 0:
                told = f"The connection pool of {self.name} is used up: all {value} are in use."
                return Cause(told, 0.85, f"Raise {name} of {self.name}, or find who holds on.", used, line)
        return None

    def _deployed(self) -> Cause | None:
        for row in reversed(self.deployed):
            time = instant(row["deployed_at"])
            if row["service"] == self.name and time and self.onset - SOON <= time <= self.onset:
                version = row["version"]
                told = f"Version {version} of {self.name}, deployed shortly before: {row['summary']}."
                named = (line for line, name, _ in self._settings() if version in line.text and name != "version")
                # That it came before is no proof that it is why: somebody should look at that again.
                advice = f"Take version {version} of {self.name} back."
                return Cause(told, 0.65, advice, setting=next(named, None), deployment=row)
        return None


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


# Queries

BEFORE: Final = timedelta(hours=4)
AFTER: Final = timedelta(hours=1)
# How much earlier than it was noticed an incident may have begun.
UNSURE: Final = timedelta(minutes=30)
RECENT: Final = timedelta(hours=2)


def deviations(words: IncidentVocabulary, start: datetime, services: Iterable[str]) -> str:
    """What differs between before and after by more than it ever does."""
    early, late = f"{words.measured_at} < {_literal(start - UNSURE)}", f"{words.measured_at} >= {_literal(start)}"
    before = f"avg({words.value}) FILTER (WHERE {early})"
    after = f"avg({words.value}) FILTER (WHERE {late})"
    return (
        f"SELECT {words.service} AS service, {words.metric} AS metric, round({before}::numeric, 2) AS before, "  # noqa: S608 - the executor checks it
        f"round({after}::numeric, 2) AS after, max({words.value}) FILTER (WHERE {late}) AS highest "
        f"FROM {words.measurements} WHERE {words.service} IN ({', '.join(map(_quoted, services))}) "
        f"AND {words.measured_at} >= {_literal(start - BEFORE)} AND {words.measured_at} < {_literal(start + AFTER)} "
        f"GROUP BY {words.service}, {words.metric} HAVING abs({after} - {before}) > "
        f"4 * stddev({words.value}) FILTER (WHERE {early}) + 0.05 * abs({before}) "
        f"ORDER BY {words.service}, {words.metric}"
    )


def deployments(words: IncidentVocabulary, start: datetime, services: Iterable[str]) -> str:
    """What was deployed in the hours before."""
    return (
        f"SELECT {words.service} AS service, {words.version} AS version, {words.deployed_at} AS deployed_at, "  # noqa: S608 - as above
        f"{words.summary} AS summary FROM {words.deployments} "
        f"WHERE {words.service} IN ({', '.join(map(_quoted, services))}) "
        f"AND {words.deployed_at} >= {_literal(start - RECENT)} AND {words.deployed_at} < {_literal(start)} "
        f"ORDER BY {words.deployed_at}"
    )


def onset(words: IncidentVocabulary, start: datetime, symptom: Row) -> str:
    """When a measurement first came half of its way."""
    least = round((number(symptom["before"]) + number(symptom["after"])) / 2, 2)
    return (
        f"SELECT {words.measured_at} AS recorded_at, {words.value} AS value FROM {words.measurements} "  # noqa: S608 - as above
        f"WHERE {words.service} = {_quoted(symptom['service'])} AND {words.metric} = {_quoted(symptom['metric'])} "
        f"AND {words.value} > {least} AND {words.measured_at} >= {_literal(start - BEFORE)} "
        f"ORDER BY {words.measured_at} LIMIT 1"
    )


def _literal(time: datetime) -> str:
    return f"timestamptz '{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}+00'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
