"""Which service an incident comes from, and what is the matter there: told from nothing but what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from services.offline_model.incidents.findings import Graph, Row, Setting, instant, number
from services.offline_model.vocabulary import IncidentVocabulary

# A deployment this long before is what went wrong; a longer one would have shown.
SOON: Final = timedelta(hours=1)
# Measurements come some minutes apart, so that what happened is seen a little later.
LATE: Final = timedelta(minutes=10)
FULL: Final = 99.0


@dataclass(frozen=True)
class Deviation:
    """A measurement that changed when the incident began; `row` is what the query said of it."""

    service: str
    metric: str
    before: float
    after: float
    highest: float
    row: Row


@dataclass(frozen=True)
class Cause:
    """A cause, what to do about it, and the evidence beyond the deviation: settings, a metric, a deployment."""

    words: str
    confidence: float
    advice: str
    metric: str = ""
    setting: Setting | None = None
    deployment: Row | None = None


def deviations(rows: Iterable[Row]) -> list[Deviation]:
    """Returns the measurements that rose."""
    found = [
        Deviation(
            row["service"], row["metric"], number(row["before"]), number(row["after"]), number(row["highest"]), row
        )
        for row in rows
        if {"service", "metric", "before", "after", "highest"} <= row.keys()
    ]
    return [each for each in found if each.after > each.before]


def origins(service: str, graph: Graph, found: Sequence[Deviation], words: IncidentVocabulary) -> list[str]:
    """Returns the services with symptoms of which nothing that they depend on has any."""
    sick = {each.service for each in found if each.metric in words.symptoms} & {service, *graph.below(service)}
    return sorted(each for each in sick if not sick & graph.below(each))


def cause_at(
    service: str,
    onset: datetime,
    found: Sequence[Deviation],
    settings: Sequence[Setting],
    deployed: Sequence[Row],
    words: IncidentVocabulary,
) -> Cause | None:
    """Returns what is the matter at a service, the most specific first; None where nothing shows it."""
    rose = {each.metric: each for each in found if each.service == service}
    own = [each for each in settings if service in each.file.split("/")]
    return (
        _expired(service, onset, rose, own, words)
        or _full(service, rose, words)
        or _used_up(service, rose, own, words)
        or _deployed(service, onset, own, deployed)
    )


def _expired(
    service: str, onset: datetime, rose: dict[str, Deviation], own: list[Setting], words: IncidentVocabulary
) -> Cause | None:
    for setting in own:
        ended = instant(setting.value) if "expire" in setting.name else None
        if ended and words.refused in rose and onset - SOON <= ended <= onset + LATE:
            told = f"What {service} signs in with expired at {setting.value}, and it has been refused since."
            return Cause(told, 0.9, f"Renew what {service} signs in with.", words.refused, setting)
    return None


def _full(service: str, rose: dict[str, Deviation], words: IncidentVocabulary) -> Cause | None:
    disk = rose.get(words.disk)
    if disk is None or disk.highest < FULL:
        return None
    return Cause(f"The disk of {service} is full.", 0.85, f"Free or add space at {service}.", disk.metric)


def _used_up(service: str, rose: dict[str, Deviation], own: list[Setting], words: IncidentVocabulary) -> Cause | None:
    used = rose.get(words.connections)
    for setting in own:
        if used and setting.name == words.pool and used.highest >= number(setting.value) > 0:
            told = f"The connection pool of {service} is used up: all {setting.value} are in use."
            advice = f"Raise {words.pool} of {service}, or find who holds on."
            return Cause(told, 0.85, advice, used.metric, setting)
    return None


def _deployed(service: str, onset: datetime, own: list[Setting], deployed: Sequence[Row]) -> Cause | None:
    for row in reversed(deployed):
        time = instant(row.get("deployed_at", ""))
        if row.get("service") == service and time and onset - SOON <= time <= onset:
            version = row.get("version", "")
            words = f"Version {version} of {service}, deployed shortly before: {row.get('summary', '')}."
            changed = next((each for each in own if version in each.text and each.name != "version"), None)
            # That it came before is no proof that it is why: somebody should look at that again.
            return Cause(words, 0.65, f"Take version {version} of {service} back.", "", changed, row)
    return None


def on_the_way(path: Sequence[str], dependencies: Any) -> dict[str, Any]:
    """Returns a path through the graph as evidence names it."""
    nodes = [{"label": dependencies.label, "key": key} for key in path]
    return {"nodes": nodes, "edges": [{"type": dependencies.type} for _ in path[1:]]}
