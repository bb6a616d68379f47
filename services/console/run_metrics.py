"""Runs of the last hours, interval by interval, ready to be drawn: how many and what came of them, times, tokens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from signalbox.v1 import runs_pb2

from services.console.periods import Period
from services.kit.text.moods import mood
from services.kit.text.words import duration, number

BAR_WIDTH, HEIGHT = 10, 60
# From the bottom up: what a run's colour says of it, in words.
MOODS: Mapping[str, str] = {
    "good": "brought what was asked",
    "warn": "did not",
    "blocked": "blocked",
    "soft": "declined or cancelled",
    "bad": "failed",
    "live": "not ended yet",
}
UNDER_WAY = ("pending", "running", "awaiting_input")


@dataclass(frozen=True)
class IntervalBar:
    """A part of an interval: where it is drawn, in which colour, and what is in it."""

    x: int
    y: float
    height: float
    kind: str
    words: str


@dataclass(frozen=True)
class MetricChart:
    """Bars of one scale, by the colours that they have, and what the highest stands for."""

    title: str
    kinds: Mapping[str, str]
    bars: Sequence[IntervalBar]
    most: str
    width: int


@dataclass
class Share:
    """Runs of an agent that are in one state, with one outcome."""

    agent: str
    state: int
    outcome: int
    mood: str
    count: int = 0
    tokens: int = 0
    model_calls: int = 0


@dataclass(frozen=True)
class RunMetrics:
    """What a page of metrics shows."""

    charts: Sequence[MetricChart]
    shares: Sequence[Share]
    moods: Mapping[str, int]
    under_way: Mapping[str, int]
    tokens: int
    model_calls: int

    @property
    def reached(self) -> str:
        """Of the runs that have ended, the part that brought what was asked; empty where none has."""
        ended = sum(count for name, count in self.moods.items() if name != "live")
        return f"{100 * self.moods.get('good', 0) / ended:.0f} %" if ended else ""


def run_metrics(counted: runs_pb2.CountRunsResponse, period: Period, begin: int) -> RunMetrics:
    """Returns what was counted of a period that begins at a time, in seconds since 1970."""
    shares = _shares(counted.counts)
    moods = Counter[str]()
    states = Counter[int]()
    for each in shares:
        moods[each.mood] += each.count
        states[each.state] += each.count
    return RunMetrics(
        charts=(
            _outcomes(counted.counts, period, begin),
            _times("From creation to end", counted.intervals, lambda each: each.duration, period, begin),
            _times("Waiting to begin", counted.intervals, lambda each: each.wait, period, begin),
            _tokens(counted.intervals, period, begin),
        ),
        shares=sorted(shares, key=lambda each: (each.agent, -each.count)),
        moods=moods,
        under_way={name: states[runs_pb2.RunState.Value(f"RUN_STATE_{name.upper()}")] for name in UNDER_WAY},
        tokens=sum(each.tokens for each in shares),
        model_calls=sum(each.model_calls for each in shares),
    )


def _shares(counts: Sequence[runs_pb2.RunCount]) -> list[Share]:
    found: dict[tuple[str, int, int], Share] = {}
    for each in counts:
        key = each.agent, each.state, each.outcome
        share = found.setdefault(key, Share(*key, mood=_mood(each)))
        share.count += each.count
        share.tokens += each.token_usage.input_tokens + each.token_usage.output_tokens
        share.model_calls += each.model_calls
    return list(found.values())


def _mood(count: runs_pb2.RunCount) -> str:
    return mood(runs_pb2.Run(state=count.state, outcome=count.outcome))


def _outcomes(counts: Sequence[runs_pb2.RunCount], period: Period, begin: int) -> MetricChart:
    places: dict[int, Counter[str]] = defaultdict(Counter)
    for each in counts:
        places[_place(each, period, begin)][_mood(each)] += each.count
    most = max((found.total() for found in places.values()), default=0)
    stacks = {
        place: [(name, found[name], f"{number(float(found[name]))} {MOODS[name]}") for name in MOODS if found[name]]
        for place, found in places.items()
    }
    return _stacked("Runs and what came of them", MOODS, stacks, most, f"{number(float(most))} runs", period, begin)


def _tokens(intervals: Sequence[runs_pb2.RunCount], period: Period, begin: int) -> MetricChart:
    kinds = {"input": "input of models", "output": "output of models"}
    stacks: dict[int, list[tuple[str, float, str]]] = {}
    for each in intervals:
        usage = each.token_usage
        stacks[_place(each, period, begin)] = [
            (name, value, f"{number(float(value))} {kinds[name]}")
            for name, value in (("input", usage.input_tokens), ("output", usage.output_tokens))
            if value
        ]
    most = max((sum(value for _, value, _ in stack) for stack in stacks.values()), default=0)
    return _stacked("Tokens", kinds, stacks, most, f"{number(float(most))} tokens", period, begin)


def _times(
    title: str,
    intervals: Sequence[runs_pb2.RunCount],
    of: Callable[[runs_pb2.RunCount], runs_pb2.Quantiles],
    period: Period,
    begin: int,
) -> MetricChart:
    """Returns a chart of medians, with 95th percentiles on top of them."""
    kinds = {"median": "median", "p95": "95th percentile"}
    stacks: dict[int, list[tuple[str, float, str]]] = {}
    for each in intervals:
        found = of(each)
        if found.ByteSize():
            stacks[_place(each, period, begin)] = [
                ("median", found.median_s, f"median {duration(found.median_s * 1000)}"),
                ("p95", found.p95_s - found.median_s, f"95th percentile {duration(found.p95_s * 1000)}"),
            ]
    most = max((sum(value for _, value, _ in stack) for stack in stacks.values()), default=0.0)
    return _stacked(title, kinds, stacks, most, duration(most * 1000), period, begin)


def _stacked(
    title: str,
    kinds: Mapping[str, str],
    stacks: Mapping[int, Sequence[tuple[str, float, str]]],
    most: float,
    most_words: str,
    period: Period,
    begin: int,
) -> MetricChart:
    bars = []
    for place, stack in sorted(stacks.items()):
        bottom = float(HEIGHT)
        at = datetime.fromtimestamp(begin + place * period.interval_s, UTC).astimezone().strftime("%a %H:%M")
        words = f"{at}: {', '.join(told for _, _, told in stack)}"
        for name, value, _ in stack:
            height = HEIGHT * value / most if most else 0.0
            bottom -= height
            bars.append(IntervalBar(place * BAR_WIDTH, bottom, height, name, words))
    return MetricChart(title, kinds, bars, most_words if most else "", period.intervals * BAR_WIDTH)


def _place(count: runs_pb2.RunCount, period: Period, begin: int) -> int:
    # The platform's clock may be in the next interval already.
    return max(0, min(period.place(count.begin_time.seconds, begin), period.intervals - 1))
