"""Known false positives: a file that people keep, so that nobody asks twice.

known_false_positives:
  - fingerprint: 3f1c…-1
    reason: The name comes from a constant.
  - rule: B101
    path: tests/**
    reason: Tests assert.
    until: 2027-01-31        # optional: from the day after, the entry no longer holds
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from signalbox.v1 import sast_pb2

from services.findings.investigation.globs import path_matches
from services.findings.investigation.yaml_file import read_yaml
from services.findings.sarif.outcome import Outcome, Source, Verdict


class KnownFalsePositive(BaseModel):
    """One entry: a finding by its fingerprint, or all findings of rules in paths."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fingerprint: str = ""
    rule: str = ""
    path: str = ""
    reason: str = Field(min_length=1)
    until: datetime.date | None = None

    @model_validator(mode="after")
    def _names_findings(self) -> Self:
        if bool(self.fingerprint) == bool(self.rule and self.path) or (self.fingerprint and (self.rule or self.path)):
            raise ValueError("name a fingerprint, or a rule and a path")
        return self

    def matches(self, finding: sast_pb2.Finding, result: str, today: datetime.date) -> bool:
        """Whether the entry is about a finding or the result that it is a place of, and still holds."""
        if self.until is not None and today > self.until:
            return False
        if self.fingerprint:
            return self.fingerprint in (finding.fingerprint, result)
        return path_matches(self.rule, finding.rule_id) and path_matches(self.path, finding.location.file)


class KnownFile(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    known_false_positives: tuple[KnownFalsePositive, ...]


def read_known(path: Path) -> tuple[KnownFalsePositive, ...]:
    """Returns the entries of a file. Raises BadFile."""
    return read_yaml(path, KnownFile).known_false_positives


def known_outcomes(
    findings: Iterable[sast_pb2.Finding],
    entries: Sequence[KnownFalsePositive],
    results: Mapping[str, str],
    today: datetime.date,
) -> dict[str, Outcome]:
    """Returns the outcomes that need no run, by fingerprint. results: the result that a finding is a place of."""
    found = {}
    for finding in findings:
        entry = next((entry for entry in entries if entry.matches(finding, results[finding.fingerprint], today)), None)
        if entry is not None:
            found[finding.fingerprint] = Outcome(
                fingerprint=finding.fingerprint,
                verdict=Verdict.FALSE_POSITIVE,
                confidence=None,
                justification=entry.reason,
                stop_reason="known_false_positive",
                source=Source.KNOWN,
            )
    return found
