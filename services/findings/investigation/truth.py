"""Ground truth: which findings are real, by people who looked.

CSV with a header, or a YAML list, with `is_vulnerable` and either `fingerprint` or `rule`, `file` and `line`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, RootModel, model_validator
from signalbox.v1 import sast_pb2

from services.findings.errors import BadFile, read_text
from services.findings.investigation.yaml_file import check, read_yaml


class TruthEntry(BaseModel):
    """What is true of one finding."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    fingerprint: str = ""
    rule: str = ""
    file: str = ""
    line: int = 0
    is_vulnerable: bool

    @model_validator(mode="after")
    def _names_a_finding(self) -> Self:
        if not self.fingerprint and not (self.rule and self.file and self.line > 0):
            raise ValueError("name a fingerprint, or a rule, a file and a line")
        return self

    @property
    def name(self) -> str:
        """The finding, in words."""
        return self.fingerprint or f"{self.rule} {self.file}:{self.line}"

    def holds(self, location: sast_pb2.CodeLocation) -> bool:
        """Whether the entry's line is one of a place."""
        return location.first_line <= self.line <= max(location.first_line, location.last_line)


class TruthList(RootModel[tuple[TruthEntry, ...]]):
    """The file."""


@dataclass(frozen=True)
class Truth:
    """Labels by fingerprint, and the entries that are about no finding."""

    labels: dict[str, bool]
    unmatched: tuple[str, ...]


def read_truth(path: Path) -> tuple[TruthEntry, ...]:
    """Returns the entries of a file. Raises BadFile."""
    if path.suffix.lower() in {".yaml", ".yml"}:
        return read_yaml(path, TruthList).root
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""), skipinitialspace=True)
    try:
        filled: list[dict[str, Any]] = [{name: value for name, value in row.items() if value} for row in rows]
    except csv.Error as error:
        raise BadFile(f"{path} is not CSV: line {rows.line_num}: {error}") from error
    return check(filled, TruthList, str(path)).root


def match_truth(
    entries: Sequence[TruthEntry], findings: Iterable[sast_pb2.Finding], results: Mapping[str, str] | None = None
) -> Truth:
    """Pairs entries with findings. results: the result that a finding is a place of.

    An entry about a result is about each of its places that has none of its own. Raises BadFile when two entries
    contradict each other.
    """
    by_place: dict[tuple[str, str], list[sast_pb2.Finding]] = {}
    by_fingerprint: dict[str, list[str]] = {}
    named = {entry.fingerprint for entry in entries}
    for finding in findings:
        own, result = finding.fingerprint, (results or {}).get(finding.fingerprint, "")
        by_fingerprint.setdefault(own if own in named or not result else result, []).append(own)
        by_place.setdefault((finding.rule_id, finding.location.file), []).append(finding)
    labels: dict[str, bool] = {}
    unmatched = []
    for entry in entries:
        if entry.fingerprint:
            matching = by_fingerprint.get(entry.fingerprint, [])
        else:
            near = by_place.get((entry.rule, entry.file), [])
            matching = [finding.fingerprint for finding in near if entry.holds(finding.location)]
        if not matching:
            unmatched.append(entry.name)
        for fingerprint in matching:
            if labels.setdefault(fingerprint, entry.is_vulnerable) != entry.is_vulnerable:
                raise BadFile(f"the ground truth contradicts itself about {entry.name}")
    return Truth(labels, tuple(unmatched))
