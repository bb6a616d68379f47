"""A claim on a run: while it holds, one replica and no other may write for the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED
from services.runtime.calls.token_chunks import CALLBACK_EVENTS, CUSTOM_WRITES
from services.runtime.routing.recorder import StepRecord


@dataclass(frozen=True)
class StepWritten:
    """A step that has been committed: its records, and where its events and decisions begin."""

    steps: list[StepRecord]
    event_base: int
    decision_base: int
    written_at: datetime
    checkpoint_id: str


@dataclass(frozen=True)
class Claim:
    """The epoch that a run was claimed at, the claim's own id, and who wants to hear of its steps.

    `fresh` says that nothing can have been checkpointed yet, which saves a read.
    """

    run_id: str
    epoch: int
    claim_id: str | None
    fresh: bool = False
    on_step: Callable[[StepWritten], None] = field(default=lambda _step: None)
    on_cancel_requested: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class StepRows:
    """A step as the ledger and the event log get it."""

    decisions: list[dict[str, Any]]
    events: list[dict[str, Any]]


def step_rows(steps: list[StepRecord]) -> StepRows:
    """Returns the rows of a superstep's records: for each node its decision, or else its completion.

    A decision says all that a completion would; two events where one will do cost every step twice.
    """
    decisions: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for step in steps:
        event: dict[str, Any] = {"n": len(events) + 1, "kind": NODE_COMPLETED, "decision": None, "payload": None}
        if decision := step["decision"]:
            number = len(decisions) + 1
            row = {"n": number, **decision, "node": step["node"], "node_elapsed_ms": step["elapsed_ms"]}
            decisions.append({**row, "calls": step["calls"]})
            event |= {"kind": DECISION, "decision": number}
        else:
            event["payload"] = {"node": step["node"], "elapsed_ms": step["elapsed_ms"], "calls": step["calls"]}
        if written := step.get("written"):
            event["payload"] = {**(event["payload"] or {}), CUSTOM_WRITES: written}
        if called := step.get("called"):
            event["payload"] = {**(event["payload"] or {}), CALLBACK_EVENTS: called}
        events.append(event)
    return StepRows(decisions, events)
