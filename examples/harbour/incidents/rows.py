"""What was deployed and measured, as rows: the same for the same world."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from examples.harbour.incidents.world import LASTS, SERVICES, Case, Cause, ServiceWorld, below, elsewhere, way

POOL_SIZE = 20
DAYS = 5
EVERY = timedelta(minutes=10)
OLD_TIMEOUT_MS, NEW_TIMEOUT_MS = 2000, 50
METRICS = (
    "error_rate", "latency_ms", "requests_per_s", "cpu_percent", "db_connections", "auth_failures", "disk_used_percent",
)  # fmt: skip
Metrics = dict[str, float]


@dataclass(frozen=True)
class Deployment:
    """A version of a service that went live."""

    service: str
    version: str
    deployed_at: datetime
    deployed_by: str
    summary: str


def deployments(world: ServiceWorld) -> list[Deployment]:
    """Returns all deployments, oldest first."""
    found = [
        Deployment(
            world.names[service], "4.1.0", world.present - timedelta(days=9, hours=number), "ci", "monthly release"
        )
        for number, service in enumerate(SERVICES)
    ]
    for number, case in enumerate(world.cases):
        found += _around(world, case, number)
    return sorted(found, key=lambda each: (each.deployed_at, each.service))


def _around(world: ServiceWorld, case: Case, number: int) -> Iterator[Deployment]:
    """Yields what was deployed around an incident: its cause, if that is one, and what only looks like it."""
    began, near = world.began(case), sorted({case.seen_at, *below(case.seen_at)})

    def deployed(service: str, version: str, minutes: int, by: str, summary: str) -> Deployment:
        return Deployment(world.names[service], version, began + timedelta(minutes=minutes), by, summary)

    if case.cause is Cause.DEPLOY:
        summary = f"upstream.timeout_ms from {OLD_TIMEOUT_MS} to {NEW_TIMEOUT_MS}"
        yield deployed(case.behind, version_of(number), -10, "m.okafor", summary)
    yield deployed(elsewhere(case.seen_at)[0], f"4.1.{number + 1}", -10, "j.lind", "new page footer")
    yield deployed(near[number % len(near)], f"4.1.{number + 1}", 50, "on-call", "more log lines")
    if case.cause is not Cause.UNKNOWN:
        yield deployed(near[-1 - number % len(near)], f"4.0.{number + 1}", -20 * 60, "ci", "log format")


def version_of(number: int) -> str:
    """Returns the version that a case of this number deploys, where that is its cause."""
    return f"4.2.{number}"


def metrics(world: ServiceWorld) -> Iterator[tuple[str, str, datetime, float]]:
    """Yields service, metric, time and value: one every ten minutes of the last days."""
    samples = DAYS * 24 * 6
    for number, service in enumerate(SERVICES):
        noise = Random(f"harbour-incidents-{service}")  # noqa: S311 - the same numbers on every machine
        for sample in range(samples + 1):
            time = world.present - (samples - sample) * EVERY
            values = _usual(number, sample, noise)
            for case in world.cases:
                _disturb(values, case, service, time - world.began(case))
            for metric, value in values.items():
                yield world.names[service], metric, time, round(value, 2)


def _usual(number: int, sample: int, noise: Random) -> Metrics:
    day = math.sin(sample / 144 * 2 * math.pi)
    wobble = [noise.uniform(-1, 1) for _ in METRICS]
    return {
        "error_rate": 0.4 + 0.1 * wobble[0],
        "latency_ms": 80 + 9 * number + 4 * wobble[1],
        "requests_per_s": 60 + 12 * number + 3 * day + 2 * wobble[2],
        "cpu_percent": 28 + number + 2 * wobble[3],
        # Some are near the bound of their pool all the time.
        "db_connections": float(round((0.8 if number % 3 == 0 else 0.4) * POOL_SIZE + wobble[4])),
        "auth_failures": 0.3 + 0.2 * wobble[5],
        "disk_used_percent": 52 + 1.5 * number + 0.2 * wobble[6],
    }


def _disturb(values: Metrics, case: Case, service: str, since: timedelta) -> None:
    """Changes what is measured while an incident lasts."""
    if not timedelta() <= since < LASTS:
        return
    if service == elsewhere(case.seen_at)[-1]:
        values["error_rate"] += 6  # of its own, and nobody's here
    path = way(case.seen_at, case.behind)
    if service not in path:
        return
    distance = len(path) - 1 - path.index(service)
    values["error_rate"] += 14 - 2 * distance
    values["latency_ms"] *= 4 - 0.5 * distance
    if service != case.behind:
        return
    if case.cause is Cause.POOL:
        values["db_connections"] = float(POOL_SIZE)
        values["requests_per_s"] *= 1.4
    elif case.cause is Cause.CREDENTIAL:
        values["auth_failures"] += 40
    elif case.cause is Cause.DISK:
        values["disk_used_percent"] = 100.0
