"""How often each rule fired, interval by interval, ready to be drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import runs_pb2

from services.console.periods import Period

BAR_WIDTH, HEIGHT = 10, 24


@dataclass(frozen=True)
class RuleBar:
    """An interval in which a rule fired: where it is drawn, and how often that was."""

    x: int
    y: float
    height: float
    count: int


@dataclass
class RuleHistory:
    """A rule: where it leads, how often it fired in each interval, and when last."""

    rule: str
    counts: list[int]
    destinations: list[str] = field(default_factory=list)
    last_time: Timestamp = field(default_factory=Timestamp)

    @property
    def total(self) -> int:
        """How often it fired."""
        return sum(self.counts)

    @property
    def most(self) -> int:
        """How often it fired in the interval with the most."""
        return max(self.counts)

    @property
    def bars(self) -> Sequence[RuleBar]:
        """The intervals in which it fired, each as high as its part of the one with the most."""
        drawn = []
        for number, count in enumerate(self.counts):
            if count:
                height = max(2.0, HEIGHT * count / self.most)
                drawn.append(RuleBar(number * BAR_WIDTH, HEIGHT - height, height, count))
        return drawn


@dataclass
class RouterHistory:
    """A router with its rules, those first that fired most."""

    router: str
    rules: list[RuleHistory]
    width: int

    @property
    def total(self) -> int:
        """Its decisions."""
        return sum(rule.total for rule in self.rules)


def rule_histories(counted: runs_pb2.CountDecisionsResponse, period: Period, begin: int) -> Sequence[RouterHistory]:
    """Returns the routers with what was counted of each rule; those that decided and fired most come first."""
    found: dict[str, dict[str, RuleHistory]] = defaultdict(dict)
    for each in counted.counts:
        history = found[each.router].setdefault(each.rule, RuleHistory(each.rule, [0] * period.intervals))
        if each.destination not in history.destinations:
            history.destinations.append(each.destination)
        if each.HasField("begin_time"):
            # The gateway's clock may be in the next interval already.
            place = min(period.place(each.begin_time.seconds, begin), period.intervals - 1)
            history.counts[max(place, 0)] += each.count
        if each.last_time.ToNanoseconds() > history.last_time.ToNanoseconds():
            history.last_time = each.last_time
    histories = [
        RouterHistory(
            router, sorted(rules.values(), key=lambda rule: (-rule.total, rule.rule)), period.intervals * BAR_WIDTH
        )
        for router, rules in found.items()
    ]
    return sorted(histories, key=lambda history: (-history.total, history.router))
