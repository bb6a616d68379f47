"""What an investigation came to, as callers get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import timestamp_pb2
from signalbox.v1 import incident_investigation_pb2 as wire

from services.kit.outcome import Outcome
from services.runtime.agents.agent import token_usage
from services.runtime.agents.context_budget import gathered
from services.runtime.agents.incident_investigation.conclusion import CONCLUDE, Conclusion, Evidence, Moment
from services.runtime.agents.incident_investigation.nodes import source_of, struct_of
from services.runtime.agents.incident_investigation.state import CheckedEvidence
from services.runtime.agents.screening import BLOCKED
from services.runtime.routing.state import COMPLETED

# Of an output, what tools gave of an investigation without an answer.
GATHERED_CHARACTERS: Final = 60_000
REFUSAL: Final = (
    "I can't look into this: its words tell whoever investigates what to do or to find. Nothing was looked at. "
    "Say what is wrong in other words, and ask `again`."
)


def result(state: Mapping[str, Any], agent_input: wire.IncidentInvestigationInput) -> wire.IncidentInvestigationOutput:
    """Returns the last answer with its evidence; without one, why there is none."""
    offline_calls = state["spend"].get("offline_calls", 0)
    output = wire.IncidentInvestigationOutput(
        token_usage=token_usage(state["spend"]), offline_model_calls=offline_calls
    )
    output.investigation_phase = state.get("investigation_phase", "")
    output.investigation_status = state.get("investigation_status", "")
    output.problems.extend(state.get("problems") or ())
    answer = state.get("answer")
    if not answer:
        output.explanation = REFUSAL if state.get("screening") == BLOCKED else _unanswered(state)
        output.evidence.extend(_tool_evidence(state))
        return output
    conclusion = Conclusion.model_validate(answer["conclusion"])
    source = source_of(agent_input)
    commit = source["commit"] if source else ""
    output.root_cause = conclusion.root_cause if conclusion.cause_found else ""
    is_sure = conclusion.cause_found and not offline_calls
    output.confidence = state.get("confidence_score", 0.0) if is_sure else 0.0
    output.explanation = conclusion.explanation
    output.validated = bool(state.get("confirmed"))
    output.evidence.extend(_evidence(each, commit) for each in answer["evidence"])
    output.recommendations.extend(conclusion.recommendations)
    output.timeline.extend(_moment(each) for each in sorted(conclusion.timeline, key=lambda each: each.time))
    return output


def outcome(state: Mapping[str, Any]) -> Outcome:
    """Returns whether a cause was found, and confirmed by validation."""
    if state.get("screening") == BLOCKED:
        return Outcome.BLOCKED
    found = state.get("confirmed") and state["status"] == COMPLETED
    return Outcome.CAUSE_FOUND if found else Outcome.NO_CAUSE_FOUND


def _unanswered(state: Mapping[str, Any]) -> str:
    why = (
        state.get("error_message")
        or f"The run ended ({state.get('stop_reason', 'failed')}) before there was an answer."
    )
    return f"{why} What was gathered by then is its evidence." if state.get("messages") else why


def _tool_evidence(state: Mapping[str, Any]) -> Iterator[wire.IncidentEvidence]:
    for each in gathered(state.get("messages") or (), GATHERED_CHARACTERS, without=CONCLUDE):
        tool = wire.ToolEvidence(tool=each.tool, arguments=struct_of(each.arguments))
        yield wire.IncidentEvidence(claim=f"what {each.tool} gave", tool=tool, holds=True, found=each.result)


def _moment(moment: Moment) -> wire.IncidentMoment:
    time = timestamp_pb2.Timestamp()
    time.FromDatetime(moment.time)
    return wire.IncidentMoment(time=time, event=moment.event)


def _evidence(checked: CheckedEvidence, commit: str) -> wire.IncidentEvidence:
    evidence = Evidence.model_validate(checked["evidence"])
    found = wire.IncidentEvidence(
        claim=evidence.claim, holds=not checked["problem"], found=checked["found"], problem=checked["problem"]
    )
    if evidence.query:
        row = {name: "" if value is None else str(value) for name, value in evidence.query.row.items()}
        found.query.CopyFrom(wire.QueryEvidence(query=evidence.query.query, row=row))
    elif evidence.graph_path:
        nodes = [wire.GraphPathNode(label=each.label, key=each.key) for each in evidence.graph_path.nodes]
        edges = [wire.GraphPathEdge(type=each.type, backwards=each.backwards) for each in evidence.graph_path.edges]
        found.graph_path.CopyFrom(wire.GraphPathEvidence(nodes=nodes, edges=edges))
    elif evidence.code:
        found.code.CopyFrom(wire.CodeEvidence(**evidence.code.model_dump(), commit=commit))
    return found
