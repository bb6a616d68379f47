"""A finding that a run looks at: how it begins, what the evaluator is sent of it, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from signalbox.v1 import evaluator_pb2, sast_pb2

from services.kit.outcome import Outcome
from services.runtime.agents.agent import token_usage
from services.runtime.agents.code_review.code_bank import Fragment, LinesRead, as_protos, bank_of, read_spans
from services.runtime.agents.code_review.code_tools import Source
from services.runtime.agents.code_review.draft import NEEDS_REVIEW, as_proto, evidence_of, verdict_name, with_flips
from services.runtime.routing.state import AgentState, append

# What a finding can come to.
OUTCOMES = (Outcome.TRUE_POSITIVE, Outcome.FALSE_POSITIVE, Outcome.NO_VERDICT)


class CaseState(AgentState, total=False):
    """What every agent that looks at a finding knows. `finding` is a serialized `signalbox.v1.Finding`."""

    finding: bytes
    source: Source
    code_bank: Annotated[list[Fragment], append]
    code_readings: Annotated[list[LinesRead], append]
    drafted_verdicts: Annotated[list[str], append]
    confidence_calibrated: bool


class CaseToJudge(TypedDict):
    """What the evaluator needs to judge a draft."""

    finding: sast_pb2.Finding
    source: sast_pb2.CodeSource
    draft: evaluator_pb2.DraftVerdict
    code_bank: list[sast_pb2.CodeFragment]


class Settled(TypedDict):
    """A verdict that stands."""

    verdict: str
    confidence: float
    justification: str
    claims: list[dict[str, Any]]


def begun(agent_input: sast_pb2.SastTriageInput | sast_pb2.SastInvestigationInput) -> dict[str, Any]:
    """Returns the finding and where its code is, as a run's first state."""
    return {
        "finding": agent_input.finding.SerializeToString(),
        "source": Source(repository=agent_input.source.repository, commit=agent_input.source.commit),
        "code_bank": [],
        "code_readings": [],
        "drafted_verdicts": [],
    }


def finding_of(state: CaseState) -> sast_pb2.Finding:
    """Returns the finding that the run looks at."""
    return sast_pb2.Finding.FromString(state["finding"])


def case_to_judge(state: CaseState, draft: Mapping[str, Any]) -> CaseToJudge:
    """Returns a draft with what it is about and rests on."""
    source = state["source"]
    return CaseToJudge(
        finding=finding_of(state),
        source=sast_pb2.CodeSource(**source),
        draft=as_proto(draft, source["commit"]),
        code_bank=as_protos(bank_of(state)),
    )


def outcome_of(settled: Settled | None) -> Outcome:
    """Returns what came of a finding: its verdict, if one stands."""
    verdict = settled["verdict"] if settled else NEEDS_REVIEW
    return Outcome.NO_VERDICT if verdict == NEEDS_REVIEW else Outcome[verdict]


def output_fields(
    state: Mapping[str, Any], settled: Settled | None, *, lacking: str, said: str, missing: Sequence[str]
) -> dict[str, Any]:
    """Returns the fields that the outputs of these agents share; without a verdict that stands it is NEEDS_REVIEW.

    lacking: what a verdict did not become before the run ended. said, missing: what the last evaluation said, and what
    it found missing, if there was one.
    """
    verdict = settled["verdict"] if settled else NEEDS_REVIEW
    drafted = state.get("drafted_verdicts") or []
    offline_calls = state["spend"].get("offline_calls", 0)
    is_calibrated = state.get("confidence_calibrated", False) and verdict != NEEDS_REVIEW and not offline_calls
    last = f" The last evaluation: {said}" if said else ""
    unsettled = f"The run ended ({state.get('stop_reason', 'failed')}) before a verdict was {lacking}.{last}"
    return {
        "verdict": verdict_name(verdict),
        "confidence": settled["confidence"] if settled and is_calibrated else 0.0,
        "confidence_calibrated": is_calibrated,
        "justification": with_flips(settled["justification"] if settled else unsettled, verdict, drafted),
        "drafted_verdicts": map(verdict_name, drafted),
        "evidence": evidence_of(settled["claims"], state["source"]["commit"]) if settled else [],
        "token_usage": token_usage(state["spend"]),
        "offline_model_calls": offline_calls,
        "notes": sast_pb2.Finding.FromString(state["finding"]).notes,
        **(_left_open(state, settled, missing) if verdict == NEEDS_REVIEW else {}),
    }


def _left_open(state: Mapping[str, Any], settled: Settled | None, missing: Sequence[str]) -> dict[str, Any]:
    """Returns what whoever looks next should not have to find out again."""
    spans = read_spans(state.get("code_bank") or ())
    return {
        "read": [
            sast_pb2.CodeLocation(file=file, first_line=first_line, last_line=last_line)
            for file, first_line, last_line in spans
        ],
        "open_question": " ".join(missing) or (settled["justification"] if settled else ""),
    }
