"""What happened to a run, told by its decisions: the way it went, and what each decision caused and cost.

Every step is charged to the decision that led to it, so that charges add up to what the run has spent; and every moment
to the decision before it, so that their times add up to the time since the run was created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, STATE_CHANGED
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.state import NOTHING_SPENT, Spend, add_spend, spend_of

Row = Mapping[str, Any]
NOTHING = timedelta()


class ClaimCause(StrEnum):
    """Why a replica claimed a run."""

    BEGIN = "BEGIN"
    ANSWER = "ANSWER"
    WAIT = "WAIT"
    TAKEOVER = "TAKEOVER"


@dataclass(frozen=True)
class EndedNode:
    """A node that ended; `sequence` is the decision after it, `led_by` the one before it, 0 where there is none."""

    node: str
    ended_at: datetime
    elapsed_ms: float
    calls: list[CallRecord]
    sequence: int
    led_by: int


@dataclass
class Charge:
    """What a decision led to, up to the next one, and what that cost; 0 is what came before the first."""

    sequence: int
    router: str = ""
    rule: str = ""
    nodes: list[str] = field(default_factory=list)
    spend: Spend = field(default_factory=lambda: NOTHING_SPENT)
    elapsed: timedelta = NOTHING
    waited: timedelta = NOTHING
    asked: timedelta = NOTHING


@dataclass(frozen=True)
class Question:
    """A question to a person."""

    input_request_id: str
    question: str
    asked_at: datetime
    answered_at: datetime | None
    answered_by: str
    answer: str
    asked: timedelta
    led_by: int
    right: str = ""
    role: str = ""


@dataclass(frozen=True)
class DependencyWait:
    """A wait for what was away."""

    dependency: str
    cause: str
    began_at: datetime
    ended_at: datetime | None
    led_by: int


@dataclass(frozen=True)
class RunClaim:
    """A claim of the run by a replica."""

    claimed_at: datetime
    cause: ClaimCause
    after_sequence: int


@dataclass(frozen=True)
class _Pause:
    """A time in which nobody executed the run, and what is known of it; `end` is None while it lasts."""

    payload: Mapping[str, Any]
    begin: datetime
    end: datetime | None
    led_by: int
    answered: Mapping[str, Any] = field(default_factory=dict)


class RunStory:
    """A run's decisions and events, read as one story; events may be gone, or some of them."""

    def __init__(self, run: RunRecord, decisions: Sequence[Row], events: Sequence[Row], read_at: datetime) -> None:
        self.run = run
        self.read_at = read_at
        self.until = run.ended_at or read_at
        self._events = list(_placed(events))
        self.route = _route(decisions, self._events)
        self.claims: list[RunClaim] = []
        self._pauses: list[_Pause] = []
        self._read_states()
        self.charges = self._charged(decisions)

    @property
    def elapsed(self) -> timedelta:
        """Time since the run was created, to its end or to now."""
        return self.until - self.run.created_at

    @property
    def uncharged(self) -> Spend:
        """What no step of the run has spent: the beginning of a fork, and what is no longer kept."""
        left = self.run.spend
        for charge in self.charges:
            left = _less(left, charge.spend)
        return left

    @property
    def questions(self) -> list[Question]:
        """The questions that the run asked, in order."""
        return [self._question(pause) for pause in self._pauses if pause.payload["state"] == RunState.AWAITING_INPUT]

    @property
    def waits(self) -> list[DependencyWait]:
        """The waits for what was away, in order."""
        return [
            DependencyWait(
                pause.payload["waiting_for"], pause.payload.get("cause", ""), pause.begin, pause.end, pause.led_by
            )
            for pause in self._pauses
            if pause.payload.get("waiting_for")
        ]

    def _read_states(self) -> None:
        """Takes claims and pauses from the changes of state."""
        paused: tuple[Mapping[str, Any], datetime, int] | None = None
        cause = ClaimCause.BEGIN
        for event, after in self._events:
            if event["kind"] != STATE_CHANGED:
                continue
            payload, at = event["payload"] or {}, event["created_at"]
            received = payload.get("input_received")
            if paused:
                answered = {**received, "answer": event.get("answer")} if received else {}
                self._pauses.append(_Pause(paused[0], paused[1], at, paused[2], answered))
                cause = ClaimCause.WAIT if paused[0].get("waiting_for") else ClaimCause.ANSWER
                paused = None
            if payload.get("state") == RunState.RUNNING:
                self.claims.append(RunClaim(at, cause, after))
                cause = ClaimCause.TAKEOVER
            elif not received:
                paused = payload, at, after
        if paused:
            self._pauses.append(_Pause(paused[0], paused[1], self.until if self.run.ended_at else None, paused[2]))

    def _question(self, pause: _Pause) -> Question:
        asked = pause.payload.get("input_request") or {}
        return Question(
            asked.get("input_request_id", ""),
            asked.get("question", ""),
            pause.begin,
            pause.end,
            pause.answered.get("subject") or "",
            pause.answered.get("answer") or "",
            (pause.end or self.until) - pause.begin,
            pause.led_by,
            pause.answered.get("right") or "",
            pause.answered.get("role") or "",
        )

    def _charged(self, decisions: Sequence[Row]) -> list[Charge]:
        charges = [Charge(0), *(Charge(row["sequence"], row["router"], row["rule"]) for row in decisions)]
        by_sequence = {charge.sequence: charge for charge in charges}
        begins = [self.run.created_at, *(row["decided_at"] for row in decisions)]
        for charge, begin, end in zip(charges, begins, [*begins[1:], self.until], strict=True):
            charge.elapsed = end - begin
        for step in self.route:
            led_by = by_sequence.get(step.led_by, charges[0])
            led_by.nodes.append(step.node)
            led_by.spend = add_spend(led_by.spend, spend_of(step.calls, step.elapsed_ms / 1000))
        for pause in self._pauses:
            led_by, lasted = by_sequence.get(pause.led_by, charges[0]), (pause.end or self.until) - pause.begin
            if pause.payload.get("waiting_for"):
                led_by.waited += lasted
            else:
                led_by.asked += lasted
        return charges


def _placed(events: Sequence[Row]) -> Iterator[tuple[Row, int]]:
    """Yields events with the last decision before each; a decision comes after the one before it."""
    after = 0
    for event in events:
        yield event, after
        if event["kind"] == DECISION:
            after = event["decision_sequence"]


def _route(decisions: Sequence[Row], events: Sequence[tuple[Row, int]]) -> list[EndedNode]:
    steps: list[EndedNode] = []
    completed: dict[int, list[Row]] = {}
    for event, after in events:
        if event["kind"] == NODE_COMPLETED:
            completed.setdefault(after, []).append(event)
    before = 0
    for row in decisions:
        steps += [_unrouted(event, before) for event in completed.pop(before, ())]
        steps.append(
            EndedNode(row["node"], row["decided_at"], row["node_elapsed_ms"], row["calls"], row["sequence"], before)
        )
        before = row["sequence"]
    return steps + [_unrouted(event, before) for event in completed.get(before, ())]


def _unrouted(event: Row, led_by: int) -> EndedNode:
    payload = event["payload"]
    return EndedNode(payload["node"], event["created_at"], payload["elapsed_ms"], payload["calls"], 0, led_by)


def _less(spend: Spend, other: Spend) -> Spend:
    return Spend(
        model_calls=spend["model_calls"] - other["model_calls"],
        tool_calls=spend["tool_calls"] - other["tool_calls"],
        input_tokens=spend["input_tokens"] - other["input_tokens"],
        output_tokens=spend["output_tokens"] - other["output_tokens"],
        wall_time_s=round(spend["wall_time_s"] - other["wall_time_s"], 6),
    )
