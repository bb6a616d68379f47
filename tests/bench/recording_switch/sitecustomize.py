"""Lets a runtime's recording of decisions be switched off and on by SIGUSR2; read by Python at its start.

Without recording, nodes are still told which decision led to them. There is no span, log line, count, event or ledger
row of it.
"""

from __future__ import annotations

import signal
from typing import Any

from services.runtime.engine import claim
from services.runtime.routing.recorder import DecisionRecord, DecisionRecorder, StepRecord
from services.runtime.routing.table import Decision

_record, _step_rows = DecisionRecorder.record, claim.step_rows
_is_on = True


def _switch(*_: object) -> None:
    global _is_on
    _is_on = not _is_on


def _record_if_on(
    self: DecisionRecorder, *, decision_id: str, router: str, decision: Decision, **more: Any
) -> DecisionRecord:
    if _is_on:
        return _record(self, decision_id=decision_id, router=router, decision=decision, **more)
    return DecisionRecord(
        decision_id=decision_id, router=router, rule=decision.rule, destination=decision.destination,
        rejected_rules=[], grounds={}, facts={}, policy_version="", trace_id="", span_id="",
    )  # fmt: skip


def _rows_if_on(steps: list[StepRecord]) -> claim.StepRows:
    return _step_rows(steps if _is_on else [{**step, "decision": None} for step in steps])


DecisionRecorder.record = _record_if_on  # type: ignore[method-assign]
claim.step_rows = _rows_if_on
signal.signal(signal.SIGUSR2, _switch)
