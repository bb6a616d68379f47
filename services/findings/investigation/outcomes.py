"""From runs to outcomes."""

from __future__ import annotations

from signalbox.v1 import runs_pb2, sast_pb2

from services.findings.sarif.findings import LogResult
from services.findings.sarif.outcome import Evidence, Outcome, Source, Verdict
from services.kit.models.offline_rules import OFFLINE_RULES

_VERDICTS = {
    sast_pb2.VERDICT_TRUE_POSITIVE: Verdict.TRUE_POSITIVE,
    sast_pb2.VERDICT_FALSE_POSITIVE: Verdict.FALSE_POSITIVE,
}
_WITH_RESULT = frozenset({runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_NEEDS_REVIEW})
Output = sast_pb2.SastInvestigationOutput | sast_pb2.SastTriageOutput


def outcome_of(fingerprint: str, run: runs_pb2.Run, *, source: Source = Source.RUN, stop_reason: str = "") -> Outcome:
    """Returns what a run that has ended says of a finding; a run without a result leaves it to a person."""
    output = _output(run.output)
    usage = output.token_usage if output.HasField("token_usage") else run.spend.token_usage
    done, by_rules = run.state in _WITH_RESULT, output.offline_model_calls > 0
    verdict = _VERDICTS.get(output.verdict, Verdict.NEEDS_REVIEW) if done else Verdict.NEEDS_REVIEW
    measured = output.confidence_calibrated and 0.0 <= output.confidence <= 1.0  # any caller may have added the answer
    error = "" if done else run.error or f"the run ended {runs_pb2.RunState.Name(run.state).removeprefix('RUN_STATE_')}"
    return Outcome(
        fingerprint=fingerprint,
        verdict=verdict,
        confidence=output.confidence if done and measured and not by_rules else None,
        justification=output.justification or error,
        evidence=tuple(_evidence(evidence) for evidence in output.evidence) if done else (),
        stop_reason=stop_reason or run.stop_reason,
        source=source,
        run_id=run.run_id,
        error=error,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        iterations=output.iterations,
        wall_time_s=run.spend.wall_time_s,
        decided_by=OFFLINE_RULES if by_rules else "",
        read=tuple(_lines(place) for place in output.read),
        open_question=output.open_question,
        rules=run.graph_version,
        notes=tuple(output.notes),
    )


def _lines(place: sast_pb2.CodeLocation) -> str:
    first_line, last_line = place.first_line, max(place.first_line, place.last_line)
    return f"{place.file}:{first_line}" + (f"-{last_line}" if last_line > first_line else "")


def refused(fingerprint: str, message: str, run_id: str = "") -> Outcome:
    """Returns the outcome of a finding that the platform would not take."""
    return Outcome(fingerprint, Verdict.NEEDS_REVIEW, None, message, run_id=run_id, error=message)


def unlocated(result: LogResult) -> Outcome:
    """Returns the outcome of a result without a place in the repository: nothing can be read about it."""
    return Outcome(
        result.fingerprint,
        Verdict.NEEDS_REVIEW,
        None,
        result.unlocated,
        stop_reason="no_location",
        source=Source.LOG,
    )


def unusable(result: LogResult) -> Outcome:
    """Returns the outcome of a result that is wrong in itself: it counts as failed, and nothing is asked about it."""
    message = f"The result in the log can't be used: {result.problem}."
    return Outcome(
        result.fingerprint,
        Verdict.NEEDS_REVIEW,
        None,
        message,
        stop_reason="unusable_result",
        source=Source.LOG,
        error=message,
    )


def _output(output: runs_pb2.RunOutput) -> Output:
    return output.sast_triage if output.WhichOneof("agent") == "sast_triage" else output.sast_investigation


def _evidence(evidence: sast_pb2.Evidence) -> Evidence:
    return Evidence(
        claim=evidence.claim,
        file=evidence.file,
        first_line=evidence.first_line,
        last_line=max(evidence.first_line, evidence.last_line),
        commit=evidence.commit,
        quote=evidence.quote,
    )
