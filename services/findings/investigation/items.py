"""Findings as items of a batch: what is asked, the answers that some have already, and what came of each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from signalbox.v1 import batches_pb2, runs_pb2, sast_pb2

from services.findings.investigation.outcomes import outcome_of, refused
from services.findings.sarif.outcome import Outcome, Source, Verdict

LONGEST_KEY = 256
LONGEST_LABEL = 63
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SETTLED_BY: Mapping[Source, batches_pb2.SettledBy] = {
    Source.KNOWN: batches_pb2.SETTLED_BY_KNOWN_FALSE_POSITIVE,
    Source.PERSON: batches_pb2.SETTLED_BY_PERSON,
    Source.EARLIER: batches_pb2.SETTLED_BY_EARLIER_RUN,
}
_SOURCES = {by: source for source, by in _SETTLED_BY.items()}
_VERDICTS: Mapping[Verdict, sast_pb2.Verdict] = {
    Verdict.TRUE_POSITIVE: sast_pb2.VERDICT_TRUE_POSITIVE,
    Verdict.FALSE_POSITIVE: sast_pb2.VERDICT_FALSE_POSITIVE,
    Verdict.NEEDS_REVIEW: sast_pb2.VERDICT_NEEDS_REVIEW,
}


def investigation_input(finding: sast_pb2.Finding, source: sast_pb2.CodeSource) -> runs_pb2.RunInput:
    """The input of a run of `sast_investigation`."""
    return runs_pb2.RunInput(sast_investigation=sast_pb2.SastInvestigationInput(finding=finding, source=source))


def finding_of(asked: runs_pb2.RunInput) -> sast_pb2.SastInvestigationInput | sast_pb2.SastTriageInput | None:
    """Returns what is asked about a finding; None where something else is asked."""
    if asked.HasField("sast_triage"):
        return asked.sast_triage
    return asked.sast_investigation if asked.HasField("sast_investigation") else None


def item_of(
    finding: sast_pb2.Finding, asked: runs_pb2.RunInput, *, truth: bool | None, settled: Outcome | None
) -> batches_pb2.NewBatchItem:
    """Returns a finding as an item; truth: whether it is a weakness, None where nobody knows."""
    true, false = sast_pb2.VERDICT_TRUE_POSITIVE, sast_pb2.VERDICT_FALSE_POSITIVE
    return batches_pb2.NewBatchItem(
        key=_key(finding.fingerprint),
        input=asked,
        truth=sast_pb2.VERDICT_UNSPECIFIED if truth is None else true if truth else false,
        settled=_settled(settled) if settled else None,
        labels={"rule": _label(finding.rule_id)},
    )


def item_outcome(fingerprint: str, item: batches_pb2.BatchItem) -> Outcome:
    """Returns what came of a finding's item."""
    if not item.HasField("run"):
        return refused(fingerprint, item.error or "the batch was cancelled before the finding's turn", item.run_id)
    source = _SOURCES.get(item.settled_by, Source.RUN)
    stop_reason = "known_false_positive" if source is Source.KNOWN else item.run.stop_reason
    return outcome_of(fingerprint, item.run, source=source, stop_reason=stop_reason)


def _settled(outcome: Outcome) -> batches_pb2.Settled:
    output = sast_pb2.SastInvestigationOutput(
        verdict=_VERDICTS[outcome.verdict],
        confidence=outcome.confidence or 0.0,
        confidence_calibrated=outcome.confidence is not None,
        justification=_text(outcome.justification),
        evidence=[
            sast_pb2.Evidence(
                claim=_text(proof.claim),
                file=_text(proof.file),
                first_line=proof.first_line,
                last_line=proof.last_line,
                commit=_text(proof.commit),
                quote=_text(proof.quote),
            )
            for proof in outcome.evidence
        ],
        offline_model_calls=1 if outcome.decided_by else 0,
        notes=map(_text, outcome.notes),
    )
    return batches_pb2.Settled(
        by=_SETTLED_BY[outcome.source],
        output=runs_pb2.RunOutput(sast_investigation=output),
        run_id=outcome.run_id if _UUID.fullmatch(outcome.run_id) else "",
        graph_version=outcome.rules,
    )


def _text(text: str) -> str:
    """Returns a text as a message can carry it: of a log, it may hold half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def _key(fingerprint: str) -> str:
    """Returns a finding's fingerprint, unless that can't be a key."""
    return fingerprint if len(fingerprint) <= LONGEST_KEY and fingerprint.isprintable() else ""


def _label(text: str) -> str:
    """Returns a text as the value of a label: letters, digits and `-_.`, and no more than one has."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LONGEST_LABEL].strip("-_.")
