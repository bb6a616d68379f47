"""A log comes back with its verdicts, and otherwise as it was."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.cli.sarif.annotate import annotate
from services.cli.sarif.documents import read_document, write_json
from services.cli.sarif.errors import UnmatchedResults
from services.cli.sarif.findings import read_results
from services.cli.sarif.outcome import Outcome, Proof, Verdict
from services.cli.sarif.paths import RepositoryPaths
from services.cli.sarif.schema import violations
from tests.unit.sarif.logs import CODEQL, SEMGREP, log_of, result

ANYWHERE = RepositoryPaths()
VERDICTS = list(Verdict)


def outcomes_of(document: dict[str, Any]) -> list[Outcome]:
    """An outcome for every finding, the verdicts taking turns."""
    wanted = [entry for entry in read_results(document, ANYWHERE) if not entry.skipped]
    return [
        Outcome(
            fingerprint=entry.fingerprint,
            verdict=VERDICTS[number % 3],
            confidence=0.5,
            justification=f"Because of {entry.fingerprint}.",
            evidence=(Proof("It is so.", "app.py", 1, 2, "0" * 40, "run(x)"),),
            run_id=f"run-{number}",
        )
        for number, entry in enumerate(wanted)
    ]


def stripped(document: dict[str, Any]) -> dict[str, Any]:
    """A log without what an annotation adds."""
    plain = copy.deepcopy(document)
    for run in plain["runs"]:
        for entry in run.get("results", []):
            entry.get("properties", {}).pop("signalbox", None)
            if not entry.get("properties", True):
                del entry["properties"]
            kept = [s for s in entry.get("suppressions", []) if "signalbox" not in s.get("properties", {})]
            entry.pop("suppressions", None)
            if kept:
                entry["suppressions"] = kept
    return plain


@pytest.mark.parametrize(
    "log", [SEMGREP, CODEQL, log_of(*(result(n) for n in range(1, 8)))], ids=["semgrep", "codeql", "plain"]
)
def test_round_trip(log: dict[str, Any]) -> None:
    before = copy.deepcopy(log)
    outcomes = outcomes_of(log)
    annotated = annotate(log, outcomes[::-1], ANYWHERE)
    assert log == before
    assert violations(annotated) == []
    assert stripped(annotated) == stripped(log)
    by_fingerprint = {outcome.fingerprint: outcome for outcome in outcomes}
    judged = 0
    for entry in read_results(annotated, ANYWHERE):
        outcome = by_fingerprint.get(entry.fingerprint)
        properties = entry.raw.get("properties", {}).get("signalbox")
        assert (outcome is None) == bool(entry.skipped) == (properties is None)
        if outcome and properties:
            judged += 1
            assert properties["verdict"] == outcome.verdict
            assert properties["justification"] == outcome.justification == f"Because of {entry.fingerprint}."
            assert properties["evidence"][0]["firstLine"] == 1
            ours = [s for s in entry.raw.get("suppressions", []) if "signalbox" in s.get("properties", {})]
            assert bool(ours) == (outcome.verdict is Verdict.FALSE_POSITIVE)
    assert judged == len(outcomes)


def test_all_or_none_of_a_run_s_results_have_suppressions() -> None:
    log = log_of(*(result(n) for n in range(1, 4)))
    annotated = annotate(log, outcomes_of(log), ANYWHERE)
    assert [len(entry["suppressions"]) for entry in annotated["runs"][0]["results"]] == [0, 1, 0]


def test_twice_is_once() -> None:
    log = log_of(*(result(n) for n in range(1, 8)))
    once = annotate(log, outcomes_of(log), ANYWHERE)
    assert annotate(once, outcomes_of(once), ANYWHERE) == once
    changed = [Outcome(o.fingerprint, Verdict.TRUE_POSITIVE, 1.0, "Now so.") for o in outcomes_of(once)]
    again = annotate(once, changed, ANYWHERE)
    assert all(entry["suppressions"] == [] for entry in again["runs"][0]["results"])


def test_what_does_not_match_is_an_error() -> None:
    log = log_of(*(result(n) for n in range(1, 4)))
    outcomes = outcomes_of(log)
    stranger = Outcome("somebody-else", Verdict.TRUE_POSITIVE, 1.0, "")
    with pytest.raises(UnmatchedResults, match="1 verdicts match no result of the log: somebody-else"):
        annotate(log, [*outcomes, stranger], ANYWHERE)
    with pytest.raises(UnmatchedResults, match="1 results have no verdict"):
        annotate(log, outcomes[1:], ANYWHERE)
    with pytest.raises(UnmatchedResults):
        annotate(log, [*outcomes, outcomes[0]], ANYWHERE)


def test_odd_text_survives() -> None:
    log = log_of(result(1, message={"text": "größe \ud800 \u2028"}))
    assert json.loads(write_json(log)) == log


SOURCE = """\
import hashlib
import pickle
import subprocess

PASSWORD = "hunter2"


def run(name):
    subprocess.run(f"service {name}", shell=True)
    subprocess.run(f"service {name}", shell=True)
    return hashlib.md5(pickle.loads(name))
"""


@pytest.mark.parametrize("format_name", ["sarif", "json"])
def test_a_log_that_bandit_has_just_written(tmp_path: Path, format_name: str) -> None:
    pytest.importorskip("bandit")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(SOURCE)
    path = tmp_path / "log"
    command = [sys.executable, "-m", "bandit", "-q", "-r", "src", "-f", format_name, "-o", str(path), "--exit-zero"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    document = read_document(path)
    results = read_results(document, ANYWHERE)
    cwes = {(entry.finding.rule_id, entry.finding.location.first_line): entry.finding.cwe for entry in results}
    assert cwes[("B602", 9)] == cwes[("B602", 10)] == "CWE-78"
    assert cwes[("B301", 11)] == "CWE-502"
    assert {entry.finding.location.file for entry in results} == {"src/app.py"}
    annotated = annotate(document, outcomes_of(document), ANYWHERE)
    assert violations(annotated) == []
    assert stripped(annotated) == stripped(document)


def test_a_log_that_ruff_has_just_written(tmp_path: Path) -> None:
    """Absolute file URIs, no rules, no fingerprints, no weaknesses."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text(SOURCE)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select=S", "--exit-zero"]
    written = ["--output-format=sarif", "--output-file=log.sarif", "src"]
    subprocess.run([*command, *written], cwd=tmp_path, check=True, timeout=120)
    document = read_document(tmp_path / "log.sarif")
    assert violations(document) == []
    paths = RepositoryPaths(root=str(tmp_path), files={"src/app.py"})
    results = read_results(document, paths)
    places = {(entry.finding.rule_id, entry.finding.location.first_line) for entry in results}
    assert places >= {("S105", 5), ("S602", 9), ("S602", 10), ("S301", 11), ("S324", 11)}
    assert len({entry.fingerprint for entry in results}) == len(results)
    for files in (paths, RepositoryPaths(files={"src/app.py"})):
        assert {entry.finding.location.file for entry in read_results(document, files)} == {"src/app.py"}
    annotated = annotate(document, outcomes_of(document), ANYWHERE)
    assert violations(annotated) == []
    assert stripped(annotated) == stripped(document)
