"""Verdicts of an earlier investigation, which stand while nothing that they rest on has changed.

A verdict is carried over to the finding of the same fingerprint when every line that it cites still reads as it did,
wherever it has moved to in its file, and the same graph of the agent would judge it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from signalbox.v1 import sast_pb2

from services.findings.investigation.repository import SourceCode
from services.findings.sarif.documents import read_document
from services.findings.sarif.fingerprints import PROPERTY
from services.findings.sarif.outcome import Evidence, Outcome, Source, Verdict
from services.kit.text.quotes import squeezed


class _Written(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class WrittenEvidence(_Written):
    """A claim as a log has it."""

    claim: str
    file: str
    first_line: int
    last_line: int
    commit: str
    quote: str = ""


class WrittenVerdict(_Written):
    """A verdict as a log has it."""

    fingerprint: str
    verdict: Verdict
    justification: str
    evidence: tuple[WrittenEvidence, ...]
    confidence: float | None = None
    decided_by: str = ""
    rules: str = ""
    run_id: str = ""


def read_earlier(path: Path) -> dict[str, WrittenVerdict]:
    """Returns the verdicts in a log that an investigation wrote, by fingerprint. Raises BadFile."""
    return {verdict.fingerprint: verdict for verdict in _verdicts(read_document(path))}


def _verdicts(document: Mapping[str, Any]) -> Iterator[WrittenVerdict]:
    for run in document["runs"]:
        for result in (run.get("results") or ()) if isinstance(run, dict) else ():
            properties = result.get("properties") if isinstance(result, dict) else None
            ours = properties.get(PROPERTY) if isinstance(properties, dict) else None
            # A result with several places has the verdict on each beside that on the whole.
            for each in (ours.get("places") or [ours]) if isinstance(ours, dict) else ():
                try:
                    yield WrittenVerdict.model_validate(each)
                except ValidationError:
                    # Nobody's verdict: the finding is investigated.
                    continue


@dataclass(frozen=True)
class _Lines:
    """Lines of a file, without what is only space."""

    texts: Sequence[str]

    def at(self, first_line: int, last_line: int) -> list[str]:
        """What stands in some lines."""
        return [squeezed(text) for text in self.texts[first_line - 1 : last_line]]

    def nearest(self, wanted: Sequence[str], line: int) -> int:
        """Returns where lines that read so begin, the nearest to a line; 0 when nowhere."""
        squeezed_texts = [squeezed(text) for text in self.texts]
        found = (
            number
            for number, text in enumerate(squeezed_texts, 1)
            if text == wanted[0] and squeezed_texts[number - 1 : number - 1 + len(wanted)] == list(wanted)
        )
        return min(found, key=lambda number: abs(number - line), default=0)


async def carried_outcomes(
    findings: Iterable[sast_pb2.Finding], earlier: Mapping[str, WrittenVerdict], source: SourceCode, rules: str
) -> dict[str, Outcome]:
    """Returns the outcomes that stand as they were, by fingerprint. rules: the graph that would judge them anew."""
    carried = {}
    for finding in findings:
        verdict = earlier.get(finding.fingerprint)
        if verdict is None or verdict.verdict is Verdict.NEEDS_REVIEW or not rules or verdict.rules != rules:
            continue
        evidence = [await _moved(each, source) for each in verdict.evidence]
        moved = [each for each in evidence if each is not None]
        line, file = finding.location.first_line, finding.location.file
        flagged = any(each.file == file and each.first_line <= line <= each.last_line for each in moved)
        if flagged and len(moved) == len(evidence):
            carried[finding.fingerprint] = _carried(finding.fingerprint, verdict, moved)
    return carried


def _carried(fingerprint: str, verdict: WrittenVerdict, evidence: Sequence[Evidence]) -> Outcome:
    commit = verdict.evidence[0].commit[:12]
    return Outcome(
        fingerprint=fingerprint,
        verdict=verdict.verdict,
        confidence=verdict.confidence,
        justification=verdict.justification,
        evidence=tuple(evidence),
        source=Source.EARLIER,
        run_id=verdict.run_id,
        decided_by=verdict.decided_by,
        rules=verdict.rules,
        notes=(f"carried over from run {verdict.run_id} at {commit}: the code that it cites reads as it did",),
    )


async def _moved(evidence: WrittenEvidence, source: SourceCode) -> Evidence | None:
    """Returns a claim at the commit that is looked at now, or None when its lines read otherwise there."""
    then = _Lines(await replace(source, commit=evidence.commit).lines(evidence.file))
    wanted = then.at(evidence.first_line, evidence.last_line)
    if not any(wanted) or len(wanted) != evidence.last_line - evidence.first_line + 1:
        return None
    first_line = _Lines(await source.lines(evidence.file)).nearest(wanted, evidence.first_line)
    if not first_line:
        return None
    last_line = first_line + len(wanted) - 1
    return Evidence(evidence.claim, evidence.file, first_line, last_line, source.commit, evidence.quote)
