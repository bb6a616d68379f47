"""Logs as scanners write them today, with verdicts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from services.findings.sarif.annotate import annotate
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.paths import RepositoryPaths
from tests.fixtures.sarif_schema import violations
from tests.unit.findings.test_annotate import ANYWHERE, outcomes_of, stripped

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
