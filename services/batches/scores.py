"""How good the verdicts of a batch are by the truth that its items came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from signalbox.v1 import batches_pb2

from services.batches.metrics import VERDICTS
from services.kit.confusion import Confusion
from services.kit.outcome import Outcome
from services.kit.telemetry.evaluations import record_result
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import BATCH_ID, FINDING_RULE, RUN_ID
from services.kit.telemetry.tracing import tracer

# Rules that are told apart: in a message, and by the metric of a process, whose series stay.
RULES_SCORED: Final = 200
RULES_MEASURED: Final = 50
OTHER_RULES: Final = "other"
_CALLED: Final = {Outcome.TRUE_POSITIVE.value: True, Outcome.FALSE_POSITIVE.value: False}
_measured: set[str] = set()


@dataclass(frozen=True)
class Scores:
    """A matrix for each rule of the analyser, those with the most items first."""

    by_rule: Mapping[str, Confusion]

    @property
    def total(self) -> Confusion:
        """Of all rules."""
        return sum(self.by_rule.values(), Confusion())


def scores_of(rows: Iterable[Mapping[str, Any]]) -> Scores:
    """Returns the scores of counts by rule, truth and verdict."""
    by_rule: dict[str, Confusion] = {}
    for row in rows:
        of_row = Confusion.of(
            vulnerable=row["truth"], called_vulnerable=_CALLED.get(row["verdict"]), count=row["count"]
        )
        by_rule[row["rule"]] = by_rule.get(row["rule"], Confusion()) + of_row
    return Scores(dict(sorted(by_rule.items(), key=lambda each: (-each[1].labelled, each[0]))))


def scores_proto(scores: Scores) -> batches_pb2.BatchScores:
    """Returns scores as their callers have them."""
    rules = list(scores.by_rule.items())[:RULES_SCORED]
    return batches_pb2.BatchScores(
        total=_proto("", scores.total), by_rule=[_proto(rule, confusion) for rule, confusion in rules]
    )


def _proto(rule: str, confusion: Confusion) -> batches_pb2.VerdictScores:
    return batches_pb2.VerdictScores(
        rule_id=rule,
        true_positives=confusion.true_positives,
        false_positives=confusion.false_positives,
        true_negatives=confusion.true_negatives,
        false_negatives=confusion.false_negatives,
        review_vulnerable=confusion.review_vulnerable,
        review_harmless=confusion.review_harmless,
        precision=confusion.precision,
        recall=confusion.recall,
        f1=confusion.f1,
    )


def tell_verdict(rule: str, *, truth: bool, verdict: str, run_id: str, trace_id: str, batch_id: str) -> None:
    """Counts the verdict of a run whose truth is known, and tells it in the run's trace."""
    called = _CALLED.get(verdict)
    measured = rule if rule in _measured or len(_measured) < RULES_MEASURED else OTHER_RULES
    if measured not in _measured:
        # What was never seen of a rule is told as 0, so that its shares can be told at once.
        from_zero(VERDICTS, [measured], ("vulnerable", "harmless"), (*_CALLED, Outcome.NO_VERDICT.value))
        _measured.add(measured)
    VERDICTS.labels(measured, "vulnerable" if truth else "harmless", verdict).inc()
    was = "a weakness" if truth else "none"
    told = {True: "called one", False: "called none", None: "left to a person"}[called]
    record_result(
        "verdict",
        score=None if called is None else float(called is truth),
        label="undecided" if called is None else "right" if called is truth else "wrong",
        explanation=f"{rule}: it is {was}, and was {told}",
        trace_id=trace_id,
        ids={RUN_ID: run_id, BATCH_ID: batch_id, FINDING_RULE: rule},
    )


def tell_scores(batch_id: str, scores: Scores) -> None:
    """Tells the scores of a batch that has ended, in a trace of their own."""
    if not scores.by_rule:
        return
    with tracer().start_as_current_span("score_batch", attributes={f"signalbox.{BATCH_ID}": batch_id}):
        for rule, confusion in [("", scores.total), *list(scores.by_rule.items())[:RULES_MEASURED]]:
            ids = {BATCH_ID: batch_id, **({FINDING_RULE: rule} if rule else {})}
            for name in ("precision", "recall", "f1"):
                value: float | None = getattr(confusion, name)
                if value is not None:
                    told = f"{confusion.decided} of {confusion.labelled} decided"
                    record_result(name, score=value, label=f"{value:.2f}", explanation=told, ids=ids)
