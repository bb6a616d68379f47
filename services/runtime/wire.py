"""From the engine's records to the protos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from google.protobuf import struct_pb2, timestamp_pb2
from signalbox.v1 import caller_pb2, runs_pb2

from services.runtime.engine.events import Event
from services.runtime.engine.records import InputRequest, RunRecord, RunState
from services.runtime.routing.state import Budget, Spend

_STATES = {state: f"RUN_STATE_{state.value}" for state in RunState}
_STATE_OF = {runs_pb2.RunState.Value(name): state for state, name in _STATES.items()}


def state_of(number: int) -> RunState | None:
    """Returns the state that a request names; None for unspecified."""
    return _STATE_OF.get(number)


def run_proto(run: RunRecord) -> runs_pb2.Run:
    """Returns a run; the question only while it is asked."""
    asked = run.input_request if run.state is RunState.AWAITING_INPUT else None
    return runs_pb2.Run(
        run_id=run.run_id,
        agent=run.agent,
        graph_version=run.graph_version,
        thread_id=run.thread_id or "",
        caller=caller_pb2.Caller(subject=run.caller.subject, roles=sorted(run.caller.roles)),
        correlation_id=run.correlation_id,
        state=_STATES[run.state],
        input=runs_pb2.RunInput.FromString(run.input) if run.input else None,
        output=runs_pb2.RunOutput.FromString(run.output) if run.output else None,
        stop_reason=run.stop_reason,
        error=run.error,
        input_request=_input_request(asked) if asked else None,
        budget=_budget(run.budget),
        spend=spend_proto(run.spend),
        epoch=run.epoch,
        create_time=timestamp_proto(run.created_at),
        start_time=timestamp_proto(run.started_at),
        end_time=timestamp_proto(run.ended_at),
        trace_id=run.traceparent.split("-")[1] if run.traceparent else "",
    )


def event_proto(event: Event, run: RunRecord | None) -> runs_pb2.RunEvent:
    """Returns an event; `run` is the run as it ended, or as it asks its question."""
    proto = runs_pb2.RunEvent(
        sequence=event.sequence, run_id=event.run_id, event_time=timestamp_proto(event.created_at)
    )
    payload = event.payload or {}
    if event.kind == "run_ended":
        proto.run_ended.CopyFrom(runs_pb2.RunEnded(run=run_proto(run) if run else None))
    elif event.kind == "decision":
        proto.decision.CopyFrom(decision_proto(event.decision or {}))
    elif event.kind == "node_completed":
        proto.node_completed.CopyFrom(
            runs_pb2.NodeCompleted(
                node=payload["node"], elapsed_ms=payload["elapsed_ms"], calls=_calls(payload["calls"])
            )
        )
    else:
        asked = run.input_request if run and payload.get("input_request") else None
        proto.state_changed.CopyFrom(
            runs_pb2.StateChanged(
                state=_STATES[RunState(payload["state"])], input_request=_input_request(asked) if asked else None
            )
        )
    return proto


def decision_proto(row: Mapping[str, Any]) -> runs_pb2.Decision:
    """Returns a decision from its row in the ledger."""
    decided_at = row["decided_at"]
    return runs_pb2.Decision(
        decision_id=row["decision_id"],
        run_id=str(row["run_id"]),
        sequence=row["sequence"],
        router=row["router"],
        rule=row["rule"],
        destination=row["destination"],
        rejected_rules=[
            runs_pb2.TriedRule(rule=tried["rule"], grounds=struct_proto(tried["grounds"]))
            for tried in row["rejected_rules"]
        ],
        grounds=struct_proto(row["grounds"]),
        facts=struct_proto(row["facts"]),
        policy_version=row["policy_version"],
        checkpoint_id=row["checkpoint_id"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        node=row["node"],
        node_elapsed_ms=row["node_elapsed_ms"],
        calls=_calls(row["calls"]),
        decide_time=timestamp_proto(datetime.fromisoformat(decided_at) if isinstance(decided_at, str) else decided_at),
    )


def _calls(calls: Iterable[Mapping[str, Any]]) -> list[runs_pb2.NodeCall]:
    return [
        runs_pb2.NodeCall(
            kind=call["kind"],
            name=call["name"],
            outcome=call["outcome"],
            elapsed_ms=call["elapsed_ms"],
            token_usage=_tokens(call["input_tokens"], call["output_tokens"]),
        )
        for call in calls
    ]


def _tokens(given: int, made: int) -> caller_pb2.TokenUsage | None:
    if not given and not made:
        return None
    return caller_pb2.TokenUsage(input_tokens=given, output_tokens=made, total_tokens=given + made)


def _budget(budget: Budget) -> caller_pb2.Budget:
    return caller_pb2.Budget(
        model_calls=budget["model_calls"],
        tokens=budget["tokens"],
        tool_calls=budget["tool_calls"],
        wall_time_s=int(budget["wall_time_s"]),
    )


def spend_proto(spend: Spend) -> runs_pb2.Spend:
    """Returns what was spent."""
    return runs_pb2.Spend(
        model_calls=spend["model_calls"],
        token_usage=_tokens(spend["input_tokens"], spend["output_tokens"]),
        tool_calls=spend["tool_calls"],
        wall_time_s=spend["wall_time_s"],
    )


def _input_request(asked: InputRequest) -> runs_pb2.InputRequest:
    return runs_pb2.InputRequest(
        input_request_id=asked.input_request_id,
        question=asked.question,
        options=asked.options,
        expire_time=timestamp_proto(asked.expires_at),
    )


def timestamp_proto(moment: datetime | None) -> timestamp_pb2.Timestamp | None:
    """Returns a moment; None stays unset."""
    if moment is None:
        return None
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def struct_proto(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns JSON values by name."""
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct
