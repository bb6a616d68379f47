"""A run over time: which service worked when. Long stretches in which nothing happened are cut short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import runs_pb2

from services.kit.text.words import code_words, duration

WIDTH = 1000.0
# A stretch without work that is longer than this part of the work is drawn as wide as this part of all.
LONG_PAUSE, PAUSE_WIDTH = 1.0, 0.06
NODES, MODEL, WAITING, PERSON = "nodes", "model", "waiting", "person"
# What is told by the run's events, and has lanes of its own.
ELSEWHERE = frozenset(("wait", "person"))
GOOD = frozenset(("ok", "allowed", "final", "approved", "admin_bypass"))


@dataclass(frozen=True)
class Bar:
    """Something that lasted: where it is drawn, in thousandths of the width, what it was, and what led to it."""

    x: float
    width: float
    label: str
    detail: str
    led_by: int
    is_bad: bool = False


@dataclass(frozen=True)
class Lane:
    """What one service did."""

    name: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Mark:
    """A moment, or a stretch that is cut short."""

    x: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """The lanes, where stretches are cut, where replicas took the run over, and a scale."""

    lanes: Sequence[Lane]
    cuts: Sequence[Mark]
    takeovers: Sequence[Mark]
    ticks: Sequence[Mark]


@dataclass(frozen=True)
class _Span:
    lane: str
    begin: datetime
    end: datetime
    label: str
    detail: str
    led_by: int
    is_bad: bool = False


def timeline(run: runs_pb2.Run, story: runs_pb2.RunExplanation) -> Timeline:
    """Returns a run over time, from its creation to its end or to now."""
    begin = moment(run.create_time)
    end = begin + timedelta(milliseconds=story.elapsed_ms)
    spans = [_within(span, begin, end) for span in _spans(story, end)]
    busy = [(span.begin, span.end) for span in spans if span.lane not in (WAITING, PERSON)]
    scale = _Scale(begin, end, busy)
    order = list(dict.fromkeys(span.lane for span in spans))
    lanes = [name for name in order if name not in (WAITING, PERSON)]
    lanes += [name for name in (WAITING, PERSON) if name in order]
    takeovers = [
        Mark(scale.x(moment(claim.claim_time)), "another replica goes on")
        for claim in story.claims
        if claim.cause == runs_pb2.CLAIM_CAUSE_TAKEOVER
    ]
    return Timeline(
        [Lane(name, [_bar(span, scale) for span in spans if span.lane == name]) for name in lanes],
        scale.cuts,
        takeovers,
        scale.ticks,
    )


def moment(stamp: Timestamp) -> datetime:
    """Returns a time in UTC."""
    return stamp.ToDatetime(tzinfo=UTC)


def _spans(story: runs_pb2.RunExplanation, until: datetime) -> Iterator[_Span]:
    for step in story.route:
        end = moment(step.end_time)
        begin = end - timedelta(milliseconds=step.elapsed_ms)
        yield _Span(NODES, begin, end, step.node, f"{step.node}, {duration(step.elapsed_ms)}", step.led_by)
    for step in story.route:
        at = moment(step.end_time) - timedelta(milliseconds=step.elapsed_ms)
        for call in (call for call in step.calls if call.kind not in ELSEWHERE):
            # Of a call of an earlier release nobody knows when it was: it is drawn behind the one before it.
            lasted = timedelta(milliseconds=call.elapsed_ms)
            at = moment(call.end_time) if call.HasField("end_time") else at + lasted
            lane = MODEL if call.kind == MODEL else call.service or call.kind
            detail = f"{call.kind} {call.name}: {code_words(call.outcome)}, {duration(call.elapsed_ms)}"
            yield _Span(lane, at - lasted, at, call.name, detail, step.led_by, call.outcome not in GOOD)
    for wait in story.waits:
        end = moment(wait.end_time) if wait.HasField("end_time") else until
        detail = f"{wait.dependency} was away: {code_words(wait.cause)}"
        yield _Span(WAITING, moment(wait.begin_time), end, wait.dependency, detail, wait.led_by, is_bad=True)
    for asked in story.questions:
        end = moment(asked.answer_time) if asked.HasField("answer_time") else until
        detail = f"asked, {duration(asked.asked_ms)}"
        yield _Span(PERSON, moment(asked.ask_time), end, asked.question, detail, asked.led_by)


def _within(span: _Span, begin: datetime, end: datetime) -> _Span:
    """Clocks of replicas differ a little from the database's: nothing is drawn outside of the run."""
    first = min(max(span.begin, begin), end)
    last = min(max(span.end, first), end)
    return _Span(span.lane, first, last, span.label, span.detail, span.led_by, span.is_bad)


class _Scale:
    """From times to places, with long pauses cut short."""

    def __init__(self, begin: datetime, end: datetime, busy: Iterable[tuple[datetime, datetime]]) -> None:
        self._pieces: list[tuple[datetime, datetime, float, float]] = []
        self.cuts: list[Mark] = []
        stretches = list(_stretches(begin, end, busy))
        work = sum((last - first for first, last, is_busy in stretches if is_busy), timedelta())
        longest = work * LONG_PAUSE
        cut = [(not is_busy) and work > timedelta() and last - first > longest for first, last, is_busy in stretches]
        shown = sum(
            (last - first for (first, last, _), is_cut in zip(stretches, cut, strict=True) if not is_cut), timedelta()
        )
        room = WIDTH * (1 - PAUSE_WIDTH * sum(cut))
        at = 0.0
        self._begin, self._shown = begin, shown
        for (first, last, _), is_cut in zip(stretches, cut, strict=True):
            width = WIDTH * PAUSE_WIDTH if is_cut else room * ((last - first) / shown if shown else 1)
            self._pieces.append((first, last, at, width))
            if is_cut:
                self.cuts.append(Mark(at + width / 2, duration((last - first) / timedelta(milliseconds=1))))
            at += width

    def x(self, at: datetime) -> float:
        """Returns the place of a time."""
        for first, last, left, width in self._pieces:
            if at <= last:
                return left + width * ((at - first) / (last - first) if last > first else 0)
        return WIDTH

    @property
    def ticks(self) -> list[Mark]:
        """Returns places and times for a scale; none where it would be interrupted."""
        if self.cuts or not self._shown:
            return []
        return [
            Mark(WIDTH * part / 4, duration(self._shown * part / 4 / timedelta(milliseconds=1))) for part in range(5)
        ]


def _stretches(
    begin: datetime, end: datetime, busy: Iterable[tuple[datetime, datetime]]
) -> Iterator[tuple[datetime, datetime, bool]]:
    """Yields the time from begin to end in pieces: with work, and without."""
    at = begin
    for first, last in sorted(busy):
        if first > at:
            yield at, first, False
            at = first
        if last > at:
            yield at, last, True
            at = last
    if end > at:
        yield at, end, False


def _bar(span: _Span, scale: _Scale) -> Bar:
    left, right = scale.x(span.begin), scale.x(span.end)
    return Bar(left, max(right - left, 2.0), span.label, span.detail, span.led_by, span.is_bad)
