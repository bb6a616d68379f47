"""Known false positives short-circuit what they name, and nothing else."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from signalbox.v1 import sast_pb2

from services.findings.errors import BadFile
from services.findings.investigation.globs import path_matches
from services.findings.investigation.known import known_outcomes, read_known
from services.findings.sarif.outcome import Source, Verdict

TODAY = datetime.date(2026, 6, 1)


def finding(fingerprint: str = "f1", rule: str = "B101", file: str = "tests/a/test_b.py") -> sast_pb2.Finding:
    return sast_pb2.Finding(
        fingerprint=fingerprint, rule_id=rule, location=sast_pb2.CodeLocation(file=file, first_line=1)
    )


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "known.yaml"
    path.write_text(text)
    return path


ENTRIES: list[tuple[str, bool]] = [
    ("fingerprint: f1", True),
    ("fingerprint: f2", False),
    ("{rule: B101, path: 'tests/**'}", True),
    ("{rule: 'B10?', path: 'tests/**/*.py'}", True),
    ("{rule: 'B*', path: '**'}", True),
    ("{rule: B101, path: 'tests/*'}", False),
    ("{rule: B101, path: 'a/test_b.py'}", False),
    ("{rule: B102, path: 'tests/**'}", False),
    ("{rule: B101, path: 'tests/**', until: 2026-06-01}", True),
    ("{rule: B101, path: 'tests/**', until: 2026-05-31}", False),
]


@pytest.mark.parametrize(("entry", "matches"), ENTRIES)
def test_entries(tmp_path: Path, entry: str, matches: bool) -> None:
    body = entry.removeprefix("{").removesuffix("}")
    entries = read_known(write(tmp_path, f"known_false_positives:\n  - {{{body}, reason: Tests assert.}}\n"))
    outcomes = known_outcomes([finding()], entries, {"f1": "f1"}, TODAY)
    assert (outcomes.keys() == {"f1"}) == matches
    for outcome in outcomes.values():
        assert (outcome.verdict, outcome.source) == (Verdict.FALSE_POSITIVE, Source.KNOWN)
        assert (outcome.justification, outcome.stop_reason) == ("Tests assert.", "known_false_positive")


BAD: list[str] = [
    "",
    "[]",
    "known_false_positives: 3",
    "known_false_positives: [{reason: r}]",
    "known_false_positives: [{fingerprint: f1}]",
    "known_false_positives: [{fingerprint: f1, reason: ''}]",
    "known_false_positives: [{rule: B101, reason: r}]",
    "known_false_positives: [{path: a, reason: r}]",
    "known_false_positives: [{fingerprint: f1, rule: B101, path: a, reason: r}]",
    "known_false_positives: [{fingerprint: f1, rule: B101, reason: r}]",
    "known_false_positives: [{fingerprint: f1, reason: r, typo: 1}]",
    "known_false_positives: [{fingerprint: f1, reason: r, until: soon}]",
    "known_false_positives: [",
    "!!python/object/apply:os.system [id]",
]


@pytest.mark.parametrize("text", BAD)
def test_bad_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFile, match=r"known\.yaml"):
        read_known(write(tmp_path, text))


GLOBS: list[tuple[str, str, bool]] = [
    ("**/x.py", "x.py", True),
    ("**/x.py", "a/b/x.py", True),
    ("a/**/x.py", "a/x.py", True),
    ("a/**", "a/b/c", True),
    ("a/**", "b/a/c", False),
    ("a.py", "aXpy", False),
    ("a[1].py", "a[1].py", True),
    ("?.py", "/.py", False),
    ("*", "a/b", False),
    ("*", "a\nb", True),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), GLOBS)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(pattern, path) == matches
