"""From the engine's records to the protos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format, struct_pb2, timestamp_pb2
from signalbox.v1 import caller_pb2, hosted_pb2, outcome_pb2, questions_pb2, runs_pb2
from signalbox_routing.explaining import ExplainedRule

from services.kit.errors import InvalidRequest
from services.kit.outcome import Outcome
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, RUN_ENDED, TOKEN_CHUNK, TOKENS_RESET
from services.runtime.calls.token_chunks import CALLBACK_EVENTS, CUSTOM_WRITES, DROPPED, RERUN, WITHDRAWN
from services.runtime.engine.events import Event
from services.runtime.engine.records import ForkedFrom, InputRequest, RunRecord, RunState
from services.runtime.hosted.adapter import COMMAND, FAN_OUT
from services.runtime.hosted.custom_writes import LEFT_OUT, NOT_JSON, TOO_LONG, TOO_MUCH
from services.runtime.hosted.lifting.lifted import CODE, LIFTED, TABLE
from services.runtime.hosted.schemas import plain, whole
from services.runtime.routing.explaining import Explanation
from services.runtime.routing.graph import BEFORE_TABLES
from services.runtime.routing.state import Budget, Spend

# Of what callers search by: each name costs a look into each thing that is searched. No rule of the protos, which would
# make a map of all names to count them.
MOST_NAMES, MOST_FILTER_BYTES = 20, 8 * 1024
_STATES = {state: f"RUN_STATE_{state.value}" for state in RunState}
# Ends that say nothing against the input.
_ASK_AGAIN = frozenset({"guard_unavailable"})
_RIGHTS = {
    "": runs_pb2.ANSWER_RIGHT_UNSPECIFIED,
    "caller": runs_pb2.ANSWER_RIGHT_CALLER,
    "role": runs_pb2.ANSWER_RIGHT_ROLE,
    "assignee": runs_pb2.ANSWER_RIGHT_ASSIGNEE,
}
_OUTCOMES: Mapping[str, outcome_pb2.Outcome] = {outcome: outcome.proto for outcome in Outcome}
DECIDED_BY = {
    TABLE: hosted_pb2.DECIDED_BY_TABLE,
    CODE: hosted_pb2.DECIDED_BY_CODE,
    COMMAND: hosted_pb2.DECIDED_BY_COMMAND,
    FAN_OUT: hosted_pb2.DECIDED_BY_FAN_OUT,
    LIFTED: hosted_pb2.DECIDED_BY_LIFTED,
}
_RESETS = {
    RERUN: runs_pb2.TOKENS_RESET_CAUSE_RERUN,
    WITHDRAWN: runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN,
    DROPPED: runs_pb2.TOKENS_RESET_CAUSE_DROPPED,
}
_LEFT_OUT = {
    TOO_LONG: runs_pb2.CUSTOM_WRITE_LEFT_OUT_TOO_LONG,
    NOT_JSON: runs_pb2.CUSTOM_WRITE_LEFT_OUT_NOT_JSON,
    TOO_MUCH: runs_pb2.CUSTOM_WRITE_LEFT_OUT_TOO_MUCH,
}
_STATE_OF = {runs_pb2.RunState.Value(name): state for state, name in _STATES.items()}


def state_of(number: int) -> RunState | None:
    """Returns the state that a request names; None for unspecified."""
    return _STATE_OF.get(number)


def run_proto(run: RunRecord) -> runs_pb2.Run:
    """Returns a run; the question only while it is asked."""
    request = run.input_request if run.state is RunState.AWAITING_INPUT else None
    waiting = run.state is RunState.PENDING and run.not_before is not None
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
        # A word of a later release is none that this one knows.
        outcome=_OUTCOMES.get(run.outcome, outcome_pb2.OUTCOME_UNSPECIFIED),
        stop_reason=run.stop_reason,
        error=run.error,
        input_request=_input_request(request) if request else None,
        budget=_budget(run.budget),
        spend=spend_proto(run.spend),
        epoch=run.epoch,
        create_time=timestamp_proto(run.created_at),
        start_time=timestamp_proto(run.started_at),
        end_time=timestamp_proto(run.ended_at),
        trace_id=run.traceparent.split("-")[1] if run.traceparent else "",
        waiting_for=run.waiting_for if waiting else "",
        retry_time=timestamp_proto(run.not_before) if waiting else None,
        retryable=_retryable(run),
        labels=run.labels,
        recorded=run.recorded,
        title=run.title,
        forked_from=_forked_from(run.forked_from) if run.forked_from else None,
        rolled_back_by=run.rolled_back_by or "",
    )


def run_count_proto(row: Mapping[str, Any]) -> runs_pb2.RunCount:
    """Returns a count of runs, of an agent's in a state or of all together."""
    return runs_pb2.RunCount(
        begin_time=timestamp_proto(row["begin_time"]),
        agent=row["agent"] or "",
        state=_STATES[RunState(row["state"])] if row["state"] else runs_pb2.RUN_STATE_UNSPECIFIED,
        outcome=_OUTCOMES.get(row["outcome"] or "", outcome_pb2.OUTCOME_UNSPECIFIED),
        count=row["count"],
        duration=_quantiles(row["duration_s"]),
        wait=_quantiles(row["wait_s"]),
        model_calls=int(row["model_calls"]),
        token_usage=caller_pb2.TokenUsage(
            input_tokens=int(row["input_tokens"]), output_tokens=int(row["output_tokens"])
        ),
        tool_calls=int(row["tool_calls"]),
    )


def _quantiles(found: Sequence[float | None] | None) -> runs_pb2.Quantiles | None:
    """Returns the median and the 95th percentile; None where nothing had the time that they are of."""
    if not found or found[0] is None or found[1] is None:
        return None
    return runs_pb2.Quantiles(median_s=found[0], p95_s=found[1])


def _forked_from(made_of: ForkedFrom) -> runs_pb2.ForkedFrom:
    return runs_pb2.ForkedFrom(
        run_id=made_of.run_id,
        step=made_of.step,
        checkpoint_id=made_of.checkpoint_id,
        changed_fields=sorted(made_of.update or ()),
        as_node=made_of.as_node,
    )


def _retryable(run: RunRecord) -> bool:
    if run.retryable is None:  # An earlier release ended it.
        return run.state is RunState.FAILED and run.stop_reason in _ASK_AGAIN
    return run.retryable


def event_proto(
    event: Event,
    run: RunRecord | None,
    asked: InputRequest | None = None,
    *,
    chunks: bool = False,
    callback_events: bool = False,
) -> runs_pb2.RunEvent:
    """Returns an event; `run` is the run as it ended, `asked` what it asked; `chunks` has what its node wrote.

    `callback_events` has what callbacks told.
    """
    proto = runs_pb2.RunEvent(
        sequence=event.sequence, run_id=event.run_id, event_time=timestamp_proto(event.created_at)
    )
    payload = event.payload or {}
    if chunks:
        proto.custom_writes.extend(map(_custom_writes, payload.get(CUSTOM_WRITES, ())))
    if callback_events:
        proto.callback_events.extend(map(_callback_events, payload.get(CALLBACK_EVENTS, ())))
    if event.kind == CALLBACK_EVENTS:
        proto.callback_events.append(_callback_events(payload))
    elif event.kind == CUSTOM_WRITES:
        proto.custom_writes.append(_custom_writes(payload))
    elif event.kind == RUN_ENDED:
        proto.run_ended.CopyFrom(runs_pb2.RunEnded(run=run_proto(run) if run else None))
    elif event.kind == DECISION:
        proto.decision.CopyFrom(decision_proto(event.decision or {}))
    elif event.kind == TOKEN_CHUNK:
        proto.token_chunk.CopyFrom(runs_pb2.TokenChunk(**payload))
    elif event.kind == TOKENS_RESET:
        reset = runs_pb2.TokensReset(node=payload["node"], cause=_RESETS[payload["cause"]])
        proto.tokens_reset.CopyFrom(reset)
    elif event.kind == NODE_COMPLETED:
        proto.node_completed.CopyFrom(
            runs_pb2.NodeCompleted(
                node=payload["node"], elapsed_ms=payload["elapsed_ms"], calls=calls_proto(payload["calls"])
            )
        )
    else:
        not_before, received = payload.get("not_before"), payload.get("input_received")
        proto.state_changed.CopyFrom(
            runs_pb2.StateChanged(
                state=_STATES[RunState(payload["state"])],
                input_request=_input_request(asked) if asked else None,
                waiting_for=payload.get("waiting_for", ""),
                cause=payload.get("cause", ""),
                retry_time=timestamp_proto(datetime.fromisoformat(not_before)) if not_before else None,
                input_received=_input_received(received) if received else None,
            )
        )
    return proto


def _custom_writes(part: Mapping[str, Any]) -> runs_pb2.CustomWrites:
    writes = map(_written, part["writes"])
    return runs_pb2.CustomWrites(node=part["node"], attempt=part["attempt"], offset=part["offset"], writes=writes)


def _callback_events(part: Mapping[str, Any]) -> runs_pb2.CallbackEvents:
    data = map(_written, part["data"])
    return runs_pb2.CallbackEvents(claim=part["claim"], offset=part["offset"], about=part["about"], data=data)


def _written(write: str | Mapping[str, str]) -> runs_pb2.CustomWrite:
    if isinstance(write, str):
        return runs_pb2.CustomWrite(json=write)
    return runs_pb2.CustomWrite(left_out=_LEFT_OUT[write[LEFT_OUT]])


def right_of(right: str | None) -> runs_pb2.AnswerRight:
    """Returns by which right somebody answers."""
    return _RIGHTS[right or ""]


def _input_received(received: Mapping[str, Any]) -> runs_pb2.InputReceived:
    return runs_pb2.InputReceived(
        input_request_id=received["input_request_id"],
        expired=received.get("expired", False),
        subject=received.get("subject") or "",
        right=right_of(received.get("right")),
        role=received.get("role") or "",
    )


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
        calls=calls_proto(row["calls"]),
        decide_time=timestamp_proto(datetime.fromisoformat(decided_at) if isinstance(decided_at, str) else decided_at),
        **_decided(row),
    )


def _decided(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how a decision was made, by the name of its field: by a table, where the ledger says no more."""
    decided = row.get("decided")
    if not decided:
        return {} if row["rule"] in BEFORE_TABLES else {"decided_by": hosted_pb2.DECIDED_BY_TABLE}
    return {
        "decided_by": DECIDED_BY[decided["by"]],
        "destinations": [hosted_pb2.Destination(**each) for each in decided["destinations"]],
        "code": hosted_pb2.CodeDecision(
            source=decided.get("source", ""),
            tests=[hosted_pb2.PassedTest(**each) for each in decided.get("tests", ())],
            returned_at=decided.get("returned_at", 0),
            returned=decided.get("returned", ""),
            remark=decided.get("remark", ""),
        ),
    }


def explanation_proto(sequence: int, told: Explanation) -> runs_pb2.DecisionExplanation:
    """Returns a decision in words."""
    return runs_pb2.DecisionExplanation(
        sequence=sequence,
        rules=map(_rule, told.rules),
        alternatives=[
            runs_pb2.Alternative(
                change=each.change, is_limit=each.is_limit, rule=each.rule, destination=each.destination
            )
            for each in told.alternatives
        ],
        later_rules=map(_rule, told.later),
    )


def _rule(rule: ExplainedRule) -> runs_pb2.RuleExplanation:
    return runs_pb2.RuleExplanation(rule=rule.rule, condition=rule.condition, missed_by=rule.missed_by)


def calls_proto(calls: Iterable[Mapping[str, Any]]) -> list[runs_pb2.NodeCall]:
    """Returns the calls of a node."""
    return [
        runs_pb2.NodeCall(
            kind=call["kind"],
            name=call["name"],
            outcome=call["outcome"],
            elapsed_ms=call["elapsed_ms"],
            token_usage=_tokens(call["input_tokens"], call["output_tokens"]),
            service=call.get("service", ""),
            end_time=timestamp_proto(datetime.fromtimestamp(call["ended_at"], UTC)) if "ended_at" in call else None,
            offline_rules=call.get("offline_rules", False),
            prompts=call.get("prompts", ""),
            estimated_tokens=call.get("estimated", False),
            at_least_once=call.get("at_least_once", False),
        )
        for call in calls
    ]


def _tokens(given: int, made: int) -> caller_pb2.TokenUsage | None:
    if not given and not made:
        return None
    # Rows of earlier releases may have them as a model's endpoint said them, for example 5.0.
    given, made = int(given), int(made)
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


def _input_request(request: InputRequest) -> runs_pb2.InputRequest:
    return runs_pb2.InputRequest(
        input_request_id=request.input_request_id,
        question=request.question,
        options=request.options,
        expire_time=timestamp_proto(request.expires_at),
        any_text=request.any_text,
        interrupts=interrupts_proto(request.interrupts),
    )


def interrupts_proto(asked: Iterable[Mapping[str, Any]]) -> list[runs_pb2.Interrupt]:
    """Returns the interrupts of a hosted graph."""
    return [
        runs_pb2.Interrupt(
            interrupt_id=each["id"],
            payload=json_format.ParseDict(each["payload"], struct_pb2.Value()),
            answer_schema=json_format.ParseDict(each["schema"], struct_pb2.Struct()) if each["schema"] else None,
        )
        for each in asked
    ]


def answers_of(request: runs_pb2.ResumeRunRequest | questions_pb2.AnswerQuestionRequest) -> dict[str, Any] | None:
    """Returns the answers of a request by interrupt; None where it has a text."""
    if not request.answers:
        return None
    return {interrupt_id: whole(json_format.MessageToDict(value)) for interrupt_id, value in request.answers.items()}


def timestamp_proto(moment: datetime | None) -> timestamp_pb2.Timestamp | None:
    """Returns a moment; None stays unset."""
    if moment is None:
        return None
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def moment_of(stamp: timestamp_pb2.Timestamp) -> datetime:
    """Returns a moment that a request names. Raises InvalidRequest for one that no calendar has."""
    try:
        return stamp.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest("a time in the request is out of range: years 1 to 9999") from error


def struct_proto(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns JSON values by name."""
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def filter_of(struct: struct_pb2.Struct, field: str) -> dict[str, Any]:
    """Returns what a request searches by. Raises InvalidRequest for too much of it."""
    if len(struct.fields) > MOST_NAMES or struct.ByteSize() > MOST_FILTER_BYTES:
        raise InvalidRequest(f"{field}: holds at most {MOST_NAMES} names, and {MOST_FILTER_BYTES} bytes")
    return plain(struct)
