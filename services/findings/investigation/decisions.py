"""What people decided about findings: a YAML list, from then on known results, and ground truth for `--truth`.

- fingerprint: 3f1c…-1
  is_vulnerable: false
  reason: The name comes from a constant.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, RootModel
from signalbox.v1 import sast_pb2

from services.findings.errors import BadFile
from services.findings.investigation.yaml_file import read_yaml
from services.findings.sarif.outcome import Outcome, Source, Verdict


class FindingDecision(BaseModel):
    """A person's word on a finding. was: the verdict that it is about."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    fingerprint: str = Field(min_length=1)
    is_vulnerable: bool
    reason: str = Field(min_length=1)
    was: Verdict | None = None
    decided_on: datetime.date | None = None


class DecisionList(RootModel[tuple[FindingDecision, ...]]):
    """The file."""


def read_decisions(path: Path) -> tuple[FindingDecision, ...]:
    """Returns the decisions in a file. Raises BadFile."""
    return read_yaml(path, DecisionList).root


def add_decision(path: Path, decision: FindingDecision) -> None:
    """Writes a decision behind those of a file, which need not be there. Raises BadFile."""
    if path.exists() and path.stat().st_size:
        known = {each.fingerprint: each for each in read_decisions(path)}
        if decision.fingerprint in known:
            raise BadFile(
                f"{path} has a decision about {decision.fingerprint}: {known[decision.fingerprint].reason}",
                hint="change or remove that entry first",
            )
    with path.open("a", encoding="utf-8") as file:
        file.write(yaml.safe_dump([decision.model_dump(mode="json")], sort_keys=False, allow_unicode=True))


def decided_outcomes(
    findings: Iterable[sast_pb2.Finding], decisions: Sequence[FindingDecision], results: Mapping[str, str]
) -> dict[str, Outcome]:
    """Returns the outcomes that people decided, by fingerprint. results: the result that a finding is a place of.

    A decision about a result holds at each of its places.
    """
    known = {decision.fingerprint: decision for decision in decisions}
    decided = {}
    for finding in findings:
        decision = known.get(finding.fingerprint) or known.get(results[finding.fingerprint])
        if decision is not None:
            decided[finding.fingerprint] = Outcome(
                fingerprint=finding.fingerprint,
                verdict=Verdict.TRUE_POSITIVE if decision.is_vulnerable else Verdict.FALSE_POSITIVE,
                confidence=None,
                justification=decision.reason,
                source=Source.PERSON,
            )
    return decided
