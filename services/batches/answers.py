"""What items come with beside their inputs: the truth, answers that they have already, and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signalbox.v1 import batches_pb2, runs_pb2, sast_pb2

from services.kit.errors import FieldViolation
from services.kit.outcome import Outcome

# The agents that judge findings: of their items truth is known, and scores are made.
_JUDGES: Final = frozenset({"sast_investigation", "sast_triage"})
_OUTCOMES: Final = {
    sast_pb2.VERDICT_TRUE_POSITIVE: Outcome.TRUE_POSITIVE,
    sast_pb2.VERDICT_FALSE_POSITIVE: Outcome.FALSE_POSITIVE,
}
LONGEST_RULE: Final = 256


@dataclass(frozen=True)
class NewItem:
    """An item that is added to a batch.

    given: what it came with beside key and input, serialized; None where that is nothing. truth: whether it is a
    weakness, None where nobody knows. run: its answer as a run, serialized, where it has one. verdict: of that, where
    it counts for scores.
    """

    key: str
    input: bytes
    given: bytes | None = None
    rule: str = ""
    truth: bool | None = None
    run: bytes | None = None
    run_id: str | None = None
    verdict: str | None = None

    @property
    def content(self) -> bytes:
        """All that it came with, by which it is known again."""
        return self.input + (self.given or b"") + (self.run or b"")


def problems_of(item: batches_pb2.NewBatchItem, place: str) -> list[FieldViolation]:
    """Returns what of an item does not go together, beyond what the contract says."""
    if not (asked := item.input.WhichOneof("agent") or ""):
        return [FieldViolation(f"{place}.input", "names no agent", "required")]
    found = []
    if item.truth and asked not in _JUDGES:
        found.append(FieldViolation(f"{place}.truth", f"is known of findings, and {asked} judges none", "truth"))
    if item.HasField("settled") and _agent_of(item.settled.output) != (agent := _agent_of(item.input)):
        found.append(FieldViolation(f"{place}.settled.output", f"is no answer of {agent}", "settled"))
    return found


def new_item(item: batches_pb2.NewBatchItem) -> NewItem:
    """Returns an item as it is kept."""
    beside = batches_pb2.NewBatchItem(truth=item.truth, labels=item.labels)
    run = verdict = None
    if item.HasField("settled"):
        beside.settled.CopyFrom(item.settled)
        answer = _as_run(item)
        run = answer.SerializeToString(deterministic=True)
        verdict = None if item.settled.by == batches_pb2.SETTLED_BY_PERSON else verdict_of(item.input, answer)
        # It is kept once, as the run.
        beside.settled.ClearField("output")
    asked = item.input.WhichOneof("agent") or ""
    return NewItem(
        item.key,
        item.input.SerializeToString(deterministic=True),
        beside.SerializeToString(deterministic=True) or None,
        # The database has no text with a NUL in it.
        getattr(item.input, asked).finding.rule_id.replace("\0", "")[:LONGEST_RULE] if asked in _JUDGES else "",
        item.truth == sast_pb2.VERDICT_TRUE_POSITIVE if item.truth else None,
        run,
        item.settled.run_id or None,
        verdict,
    )


def verdict_of(asked: runs_pb2.RunInput, run: runs_pb2.Run | None) -> str | None:
    """Returns the outcome by which an item counts for scores; None for agents that judge nothing."""
    if asked.WhichOneof("agent") not in _JUDGES:
        return None
    outcome = Outcome.of(run.outcome) if run is not None else None
    return (outcome if outcome in _OUTCOMES.values() and outcome else Outcome.NO_VERDICT).value


def _as_run(item: batches_pb2.NewBatchItem) -> runs_pb2.Run:
    agent = item.input.WhichOneof("agent") or ""
    run = runs_pb2.Run(
        run_id=item.settled.run_id,
        agent=_agent_of(item.input),
        graph_version=item.settled.graph_version,
        state=runs_pb2.RUN_STATE_SUCCEEDED,
        output=item.settled.output,
    )
    if agent in _JUDGES:
        verdict = getattr(item.settled.output, agent).verdict
        run.outcome = _OUTCOMES.get(verdict, Outcome.NO_VERDICT).proto
    return run


def _agent_of(message: runs_pb2.RunInput | runs_pb2.RunOutput) -> str:
    """Returns the name of the agent that an input is of, or an output; of a hosted graph its own."""
    kind = message.WhichOneof("agent") or ""
    return message.graph.agent if kind == "graph" else kind
