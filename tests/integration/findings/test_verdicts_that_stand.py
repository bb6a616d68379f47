"""Verdicts that stand from then on: carried over where their code is unchanged, and what people decided."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from signalbox.v1 import runs_pb2, sast_pb2

from services.cli.errors import CliError
from services.cli.findings import decide
from services.cli.investigation import Investigation, summarise
from services.cli.terminal import Terminal
from services.findings.errors import BadFile
from services.findings.investigation.summary import Summary
from services.findings.investigation.truth import read_truth
from services.findings.sarif.outcome import Source, Verdict
from tests.integration.findings.conftest import Serving, serving
from tests.integration.findings.fake_platform import FakePlatform, succeed

FLAGGED = "    subprocess.run(name, shell=True)"


def commit(repository: Path, text: str) -> str:
    """Commits another text of the file, and returns the commit."""
    (repository / "src" / "app.py").write_text(text)
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "commit", "-qam", "b"], check=True)
    found = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def write_log(path: Path, text: str) -> Path:
    """Writes a log of the one finding in a text."""
    line = text.split("\n").index(FLAGGED) + 1
    region = {"startLine": line, "snippet": {"text": FLAGGED}}
    place = {"physicalLocation": {"artifactLocation": {"uri": "src/app.py"}, "region": region}}
    result = {"ruleId": "B602", "message": {"text": "A shell."}, "locations": [place]}
    path.write_text(json.dumps({"version": "2.1.0", "runs": [{"results": [result]}]}))
    return path


def read(path: Path) -> dict[str, Any]:
    """What is written of the finding in a log."""
    told: dict[str, Any] = json.loads(path.read_text())["runs"][0]["results"][0]["properties"]["signalbox"]
    return told


def quiet() -> Terminal:
    """A terminal that nobody reads."""
    return Terminal(Console(file=io.StringIO()), Console(file=io.StringIO()))


async def investigated(at: Serving, wanted: Investigation) -> Summary:
    return await summarise(at.connection, wanted, quiet())


def false_at(commit_id: str, graph: str) -> FakePlatform:
    """A platform whose runs say FALSE_POSITIVE of the flagged line at a commit."""

    def ending(finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:
        run = succeed(finding, attempt)
        run.graph_version = graph
        run.output.sast_investigation.verdict = sast_pb2.VERDICT_FALSE_POSITIVE
        run.output.sast_investigation.evidence[0].commit = commit_id
        return run

    platform = FakePlatform()
    platform.ending, platform.graph_version = ending, graph
    return platform


@pytest.mark.parametrize(
    ("change", "graph", "asked"),
    [
        (("import", "# One line more.\nimport"), "g1", 0),
        (("name, shell", "name,  shell"), "g1", 0),
        (("run(1)", "run(2)"), "g1", 0),
        (("import", "# One line more.\nimport"), "g2", 1),
        (("(name, shell", "(name.strip(), shell"), "g1", 1),
    ],
    ids=["a comment above", "a blank", "other code", "another graph", "the cited code"],
)
async def test_a_verdict_is_carried_over_while_what_it_cites_reads_as_it_did(
    repository: Path, tmp_path: Path, change: tuple[str, str], graph: str, asked: int
) -> None:
    text = (repository / "src" / "app.py").read_text()
    out, first = tmp_path / "out.sarif", commit(repository, text + "\n")
    given = write_log(tmp_path / "log.sarif", text)
    async with serving(false_at(first, "g1")) as at:
        await investigated(at, Investigation(given, str(repository), out=out))
    changed = text.replace(*change)
    later = commit(repository, changed + "\n")
    if FLAGGED in changed:
        write_log(given, changed)
    async with serving(false_at(later, graph)) as at:
        summary = await investigated(at, Investigation(given, str(repository), earlier_file=out))
        assert sum(at.platform.started.values()) == asked
    (judged,) = summary.judged
    assert judged.outcome.verdict is Verdict.FALSE_POSITIVE
    if not asked:
        assert judged.outcome.source is Source.EARLIER
        assert [(each.commit, each.first_line) for each in judged.outcome.evidence] == [
            (later, judged.finding.location.first_line)
        ]
        assert first[:12] in judged.outcome.notes[0]


@pytest.mark.parametrize(("overrule", "verdict"), [(True, "TRUE_POSITIVE"), (False, "FALSE_POSITIVE")])
async def test_what_a_person_decided_is_asked_of_no_model_and_is_true(
    repository: Path, tmp_path: Path, overrule: bool, verdict: str
) -> None:
    text = (repository / "src" / "app.py").read_text()
    out, again, decisions = (tmp_path / name for name in ("out.sarif", "again.sarif", "decisions.yaml"))
    given = write_log(tmp_path / "log.sarif", text)
    async with serving(false_at("0" * 40, "g1")) as at:
        await investigated(at, Investigation(given, str(repository), out=out))
        fingerprint = read(out)["fingerprint"]
        await decide(out, fingerprint, "It's ours.", decisions, quiet(), overrule=overrule)
        with pytest.raises(BadFile, match="has a decision about"):
            await decide(out, fingerprint, "Once more.", decisions, quiet(), overrule=False)
        before = sum(at.platform.started.values())
        await investigated(at, Investigation(given, str(repository), decisions_file=decisions, out=again))
        assert sum(at.platform.started.values()) == before
    told = read(again)
    assert (told["verdict"], told["source"], told["justification"]) == (verdict, "person", "It's ours.")
    [truth] = read_truth(decisions)
    assert (truth.fingerprint, truth.is_vulnerable) == (fingerprint, overrule)


@pytest.mark.parametrize(("known", "verdict"), [(False, None), (True, Verdict.FALSE_POSITIVE)])
async def test_a_decision_that_changes_nothing_is_refused(
    repository: Path, tmp_path: Path, known: bool, verdict: Verdict | None
) -> None:
    text = (repository / "src" / "app.py").read_text()
    out, given, decisions = tmp_path / "out.sarif", write_log(tmp_path / "log.sarif", text), tmp_path / "d.yaml"
    async with serving(false_at("0" * 40, "g1")) as at:
        await investigated(at, Investigation(given, str(repository), out=out))
    fingerprint = read(out)["fingerprint"] if known else "unknown"
    with pytest.raises(CliError):
        await decide(out, fingerprint, "So.", decisions, quiet(), overrule=True, verdict=verdict)
    assert not decisions.exists()
