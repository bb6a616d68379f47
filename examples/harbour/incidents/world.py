"""The services, what depends on what, and the incidents with their causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cached_property

# The harbour's present, as data.sql has it.
PRESENT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LASTS = timedelta(hours=2)
# How long after it began an incident is noticed.
NOTICED_AFTER = timedelta(minutes=10)

DEPENDS_ON: Mapping[str, tuple[str, ...]] = {
    "portal": ("booking", "tracking", "accounts"),
    "booking": ("payments", "berths"),
    "payments": ("ledger", "bank-link"),
    "tracking": ("telemetry", "charts"),
    "telemetry": ("timeseries",),
    "accounts": ("identity",),
    "berths": ("tide-tables",),
    "reports": ("ledger", "timeseries"),
    "notices": ("accounts", "mail-relay"),
    "ledger": (),
    "bank-link": (),
    "charts": (),
    "timeseries": (),
    "identity": (),
    "tide-tables": (),
    "mail-relay": (),
}
SERVICES = tuple(DEPENDS_ON)
OWNERS = ("quay", "pilot", "harbourmaster")


class Cause(Enum):
    """What is behind an incident."""

    DEPLOY = "a deployment"
    POOL = "a connection pool that is used up"
    CREDENTIAL = "a credential that has expired"
    DISK = "a full disk"
    UNKNOWN = "nothing that the data shows"


@dataclass(frozen=True)
class Case:
    """An incident: where it was seen, and which service its cause is at; `before` the present it began."""

    incident_id: str
    cause: Cause
    seen_at: str
    behind: str
    before: timedelta
    severity: str
    title: str
    text: str


CASES = (
    Case(
        "INC-2041", Cause.DEPLOY, "booking", "payments", timedelta(days=4, hours=2, minutes=40), "HIGH",
        "{service} answers with errors",
        "About one booking in ten fails since this morning. The page footer was changed at about the same time.",
    ),
    Case(
        "INC-2042", Cause.POOL, "tracking", "telemetry", timedelta(days=2, hours=21, minutes=20), "MEDIUM",
        "{service} is slow", "Positions of ships take seconds to appear. No errors were reported at first.",
    ),
    Case(
        "INC-2043", Cause.CREDENTIAL, "accounts", "identity", timedelta(days=2, hours=6), "CRITICAL",
        "Nobody can sign in at {service}", "Signing in fails since early morning; who is signed in can go on.",
    ),
    Case(
        "INC-2044", Cause.DISK, "portal", "timeseries", timedelta(hours=17, minutes=30), "HIGH",
        "{service} times out", "Half of the pages do not load. A colleague suspects the last release of the portal.",
    ),
    Case(
        "INC-2045", Cause.UNKNOWN, "berths", "berths", timedelta(hours=3, minutes=50), "LOW",
        "{service} fails now and then", "Some requests fail. Nobody knows of a change.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class ServiceWorld:
    """The services by their names in this world, at its present."""

    names: Mapping[str, str] = field(default_factory=lambda: {service: service for service in SERVICES})
    present: datetime = PRESENT
    cases: tuple[Case, ...] = CASES

    def began(self, case: Case) -> datetime:
        """When an incident began."""
        return self.present - case.before

    def noticed(self, case: Case) -> datetime:
        """When an incident began, as far as those know who report it."""
        return self.began(case) + NOTICED_AFTER

    def title(self, case: Case) -> str:
        """What is reported, in a line."""
        return case.title.format(service=self.names[case.seen_at])

    @cached_property
    def edges(self) -> list[tuple[str, str]]:
        """Who depends on whom, by names."""
        return [(self.names[one], self.names[other]) for one, others in DEPENDS_ON.items() for other in others]


def below(service: str) -> frozenset[str]:
    """Returns what a service depends on, also by way of others."""
    return frozenset(each for other in DEPENDS_ON[service] for each in (other, *below(other)))


def way(seen_at: str, behind: str) -> tuple[str, ...]:
    """Returns the services from where an incident is seen to where its cause is. Raises ValueError."""
    ways = list(_ways(seen_at, behind))
    if not ways:
        raise ValueError(f"{seen_at} does not depend on {behind}")
    return min(ways, key=len)


def _ways(seen_at: str, behind: str) -> Iterator[tuple[str, ...]]:
    if seen_at == behind:
        yield (seen_at,)
    for other in DEPENDS_ON[seen_at]:
        for rest in _ways(other, behind):
            yield (seen_at, *rest)


def elsewhere(seen_at: str) -> tuple[str, ...]:
    """Returns services that a service does not depend on, and that do not depend on it."""
    near = {seen_at, *below(seen_at)}
    return tuple(each for each in SERVICES if each not in near and seen_at not in below(each))
