"""The queries of an investigation: what changed among services when an incident began, and what was deployed before."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from services.offline_model.incidents.causes import Row, number
from services.offline_model.vocabulary import IncidentVocabulary

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
