"""Decisions of a replay, held one by one against those that were recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

from signalbox.v1 import cases_pb2, runs_pb2

from services.runtime.cases.answers import Answers
from services.runtime.cases.errors import AnswerMissing
from services.runtime.routing.recorder import DecisionRecord, StepRecord
from services.runtime.routing.stopping import RUN_CANCELLED

# Ends that come from outside of the graph: what nodes would have heard after them is in no recording.
_FROM_OUTSIDE = (runs_pb2.RUN_STATE_CANCELLED,)


@dataclass(frozen=True)
class ChangedDecision:
    """The first decision that came out otherwise; `recorded` is None where the run had made no more."""

    sequence: int
    node: str
    recorded: runs_pb2.Decision | None
    made: DecisionRecord


@dataclass
class Replayed:
    """What came of a replay: decisions that are the same, where it left the way, and what it decided from there on."""

    same: int = 0
    parting: ChangedDecision | None = None
    after: list[tuple[str, DecisionRecord]] = field(default_factory=list)
    status: str = ""
    lacks: AnswerMissing | None = None

    @property
    def is_same(self) -> bool:
        """Whether everything was decided as it was."""
        return self.parting is None and self.lacks is None


class DecisionComparison:
    """The decisions of a case, and what has come of them so far."""

    def __init__(self, case: cases_pb2.Case, answers: Answers, *, goes_on: bool) -> None:
        self.replayed = Replayed()
        self.goes_on = goes_on
        self._state = case.run.state
        # Why a node was broken off is no decision of a table, nor of code.
        self._recorded = [decision for decision in case.decisions if decision.rule != RUN_CANCELLED]
        self._answers = answers

    def hold(self, step: StepRecord) -> bool:
        """Holds a step's decision against the recorded one; returns whether to go on.

        What follows on an answer that is missing is no decision: nodes may swallow the error, or fail of it.
        """
        if self._answers.missing:
            return False
        made, replayed = step["decision"], self.replayed
        if made is None:
            return True
        if replayed.parting:
            replayed.after.append((step["node"], made))
            return True
        recorded = self._recorded[replayed.same] if replayed.same < len(self._recorded) else None
        if recorded and way_of(recorded) == (made["router"], made["rule"], made["destination"]):
            replayed.same += 1
            return True
        replayed.parting = ChangedDecision(replayed.same + 1, step["node"], recorded, made)
        self._answers.has_left_the_way = True
        return self.goes_on

    def ended(self, status: str) -> Replayed:
        """Returns what has come of it, at its end; `status` is that of the graph."""
        replayed, missing = self.replayed, self._answers.missing
        is_from_outside = self._state in _FROM_OUTSIDE and replayed.same == len(self._recorded)
        replayed.lacks = None if is_from_outside else missing
        if replayed.lacks is None and (replayed.parting is None or self.goes_on):
            replayed.status = status
        return replayed


def way_of(decision: runs_pb2.Decision) -> tuple[str, str, str]:
    """Returns router, rule and destination of a decision."""
    return decision.router, decision.rule, decision.destination
