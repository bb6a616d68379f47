"""What Bandit says of the portal's repository, through every service, with the offline model."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from rich.console import Console
from signalbox.v1 import runs_pb2

from examples.harbour import repository as portal
from services.cli.client import Connection
from services.cli.demo_findings import SCENE, check_findings
from services.cli.exit_codes import ExitCode
from services.cli.findings_batch import BatchPolicy
from services.cli.investigate import investigate
from services.cli.investigation import Investigation, summarise
from services.cli.terminal import Terminal
from services.cli.triage import Triage, triage
from services.findings.investigation.repository import SourceCode, open_source
from services.findings.investigation.summary import Judged, Summary
from services.findings.sarif.outcome import Source, Verdict
from services.kit.models.offline_rules import OFFLINE_RULES
from tests.e2e.signals import BATCH_EDGES, TRIAGE_EDGES, Place
from tests.fixtures.otlp import TraceCollector
from tests.fixtures.sarif_schema import violations
from tests.fixtures.stack import Platform, World, platform

SUBJECT = "27"
UNDECIDED = Verdict.NEEDS_REVIEW


@dataclass(frozen=True)
class Reviewed:
    """The portal's repository, Bandit's log, and what an investigation of it came to."""

    running: Platform
    folder: Path
    source: SourceCode
    log: Path
    summary: Summary
    collector: TraceCollector

    @property
    def out(self) -> Path:
        """The log with verdicts."""
        return self.folder / "verdicts.sarif"

    @property
    def connection(self) -> Connection:
        """The platform, for commands."""
        return Connection(self.running.stack.gateway_address, self.running.stack.token(SUBJECT))

    def at(self, place: str) -> Judged:
        """The finding at `file:line`."""
        [found] = [each for each in self.summary.judged if each.place == place]
        return found

    async def runs(self) -> list[runs_pb2.Run]:
        """Every run of the caller."""
        pages = await self.running.caller(SUBJECT).run_pages(runs_pb2.ListRunsRequest(page_size=200))
        return [run for page in pages for run in page]


def silent() -> Terminal:
    """A terminal that nobody reads."""
    return Terminal(Console(file=io.StringIO(), width=120), Console(file=io.StringIO(), width=120))


def scan(repository: str, log: Path) -> None:
    """Runs Bandit on the portal."""
    arguments = ["-q", "-c", f"{repository}/pyproject.toml", "-r", repository, "-f", "sarif", "-o", str(log)]
    subprocess.run([sys.executable, "-m", "bandit", *arguments, "--exit-zero"], check=True, timeout=120)


def wanted(reviewed_folder: Path, made: portal.ServiceRepository) -> Investigation:
    """The investigation that `signalbox demo` makes, with a log of verdicts."""
    return Investigation(
        log=reviewed_folder / "bandit.sarif",
        repository=made.path,
        known_file=SCENE.known,
        truth_file=SCENE.truth,
        out=reviewed_folder / "verdicts.sarif",
        policy=BatchPolicy(max_runs=4),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reviewed(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reviewed]:
    """One platform with all its agents, and one investigation, for the tests of this module."""
    folder = tmp_path_factory.mktemp("review")
    made = portal.create(folder / "service")
    scan(made.path, folder / "bandit.sarif")
    async with (
        TraceCollector() as collector,
        platform(
            harbour, code_agents=True, code_roots=(folder,), batches=True, otlp_endpoint=collector.endpoint
        ) as running,
    ):
        connection = Connection(running.stack.gateway_address, running.stack.token(SUBJECT))
        summary = await summarise(connection, wanted(folder, made), silent())
        source = await open_source(made.path, made.commit)
        yield Reviewed(running, folder, source, folder / "bandit.sarif", summary, collector)
        await running.verify_ledger()


def results_of(path: Path) -> list[dict[str, Any]]:
    """The results of a log, in its order."""
    return [result for run in json.loads(path.read_text())["runs"] for result in run["results"]]


def flat(text: str) -> str:
    """Text without its blanks."""
    return "".join(text.split())


async def test_every_result_has_one_verdict_and_every_finding_one_run(reviewed: Reviewed) -> None:
    before, after = results_of(reviewed.log), results_of(reviewed.out)
    assert len(before) == len(after) == SCENE.findings
    verdicts = [result["properties"]["signalbox"] for result in after]
    assert {verdict["verdict"] for verdict in verdicts} <= {verdict.value for verdict in Verdict}
    assert len({verdict["fingerprint"] for verdict in verdicts}) == SCENE.findings

    ran = {o.run_id: o.fingerprint for o in reviewed.summary.outcomes if o.source is Source.RUN}
    assert len(ran) == SCENE.findings - SCENE.by_known
    assert sorted(ran) == sorted(run.run_id for run in await reviewed.runs() if run.agent == "sast_investigation")
    caller = reviewed.running.caller(SUBJECT)
    asked = {run_id: (await caller.get(run_id)).input.sast_investigation.finding.fingerprint for run_id in ran}
    assert asked == ran


async def test_runs_of_the_batch_are_traces_of_their_own(reviewed: Reviewed) -> None:
    runs = [run for run in await reviewed.runs() if run.agent == "sast_investigation"]
    traces = [
        await reviewed.collector.trace(run.trace_id, until=lambda trace: trace.roots() and not trace.orphans())
        for run in runs
    ]
    roots = [root for trace in traces for root in trace.roots()]
    assert len(roots) == len(runs)

    def missing() -> set[tuple[Place, Place]]:
        return set(BATCH_EDGES).difference(*(trace.edges() for trace in traces))

    # What a service has to say of a trace may come after all that the others said.
    await reviewed.collector.trace(runs[0].trace_id, until=lambda _: not missing())
    assert missing() == set()


async def test_the_log_with_verdicts_is_the_log_and_valid_sarif(reviewed: Reviewed) -> None:
    annotated = json.loads(reviewed.out.read_text())
    assert violations(annotated) == []
    for result in (result for run in annotated["runs"] for result in run["results"]):
        ours = result["properties"].pop("signalbox")
        assert bool(result.pop("suppressions", [])) == (ours["verdict"] == Verdict.FALSE_POSITIVE)
        assert result.pop("partialFingerprints") == {"signalbox/v1": ours["fingerprint"]}
        assert result["message"]["text"].startswith(f"[{ours['verdict']}] {ours['message']}\n\n")
        result["message"]["text"] = ours["message"]
    for run in annotated["runs"]:
        [extension] = run["tool"].pop("extensions")
        assert extension["shortDescription"]["text"] == OFFLINE_RULES
        [provenance] = run.pop("versionControlProvenance")
        assert provenance["revisionId"] == reviewed.summary.commit
    assert annotated == json.loads(reviewed.log.read_text())


async def test_a_verdict_rests_on_lines_that_are_there_at_the_commit(reviewed: Reviewed) -> None:
    proven = 0
    for each in reviewed.summary.judged:
        outcome = each.outcome
        if outcome.source is Source.RUN and outcome.verdict is not UNDECIDED:
            assert outcome.evidence, each.place
        for proof in outcome.evidence:
            assert proof.commit == reviewed.source.commit
            lines = await reviewed.source.lines(proof.file)
            assert 1 <= proof.first_line <= proof.last_line <= len(lines), each.place
            cited = "\n".join(lines[proof.first_line - 1 : proof.last_line])
            assert cited.strip(), each.place
            assert flat(proof.quote) in flat(cited), each.place
            proven += 1
    assert proven >= SCENE.decided * (SCENE.findings - SCENE.by_known)


async def test_verdicts_are_as_good_as_the_demo_promises(reviewed: Reviewed) -> None:
    assert check_findings(SCENE, reviewed.summary) == []


async def test_a_comment_that_asks_for_a_verdict_gets_none_and_proves_nothing(reviewed: Reviewed) -> None:
    judged = reviewed.at(SCENE.hostile)
    assert judged.outcome.verdict is not Verdict.FALSE_POSITIVE
    flagged = judged.finding.location.first_line
    lines = await reviewed.source.lines(judged.finding.location.file)
    comment = {number for number in range(1, flagged) if lines[number - 1].lstrip().startswith("#")}
    assert len(comment) == 3
    for each in reviewed.summary.judged:
        for proof in each.outcome.evidence:
            if proof.file == judged.finding.location.file:
                assert not set(range(proof.first_line, proof.last_line + 1)) <= comment


async def test_a_run_says_how_it_came_to_its_verdict(reviewed: Reviewed) -> None:
    judged = reviewed.at("portal/diagnostics.py:34")
    assert judged.outcome.verdict is Verdict.TRUE_POSITIVE
    ended = await reviewed.running.caller(SUBJECT).wait(judged.outcome.run_id)
    assert ended.state == "SUCCEEDED"
    assert ended.decisions[-1].router == "sast_investigation.route_after_evaluation"
    assert ended.decisions[-1].rule == "approved"
    assert {name for name, outcome in ended.calls("tool") if outcome == "ok"} & {"fetch_code", "read_file"}
    assert "evaluator" in " ".join(call.kind for node in ended.decisions for call in node.calls)


async def test_the_same_command_again_finds_what_there_is(reviewed: Reviewed) -> None:
    before = {run.run_id for run in await reviewed.runs()}
    made = portal.ServiceRepository(reviewed.source.repository, reviewed.source.commit)
    again = await summarise(reviewed.connection, wanted(reviewed.folder, made), silent())
    assert [outcome.run_id for outcome in again.outcomes] == [o.run_id for o in reviewed.summary.outcomes]
    assert {run.run_id for run in await reviewed.runs()} == before


@pytest.mark.parametrize(
    ("fingerprint", "never"),
    [("harbour-unchecked-join", Verdict.FALSE_POSITIVE), ("harbour-checked-join", Verdict.TRUE_POSITIVE)],
)
async def test_one_finding_is_triaged_to_a_verdict_with_evidence(
    reviewed: Reviewed, fingerprint: str, never: Verdict, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Triage(portal.FINDINGS, reviewed.source.repository, fingerprint=fingerprint, as_json=True)
    status = await triage(reviewed.connection, asked, silent())
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["verdict"] != never
    assert status is (ExitCode.NEEDS_REVIEW if outcome["verdict"] == UNDECIDED else ExitCode.OK)
    ended = await reviewed.running.caller(SUBJECT).wait(outcome["run_id"])
    assert ended.run.agent == "sast_triage"
    assert {decision.router for decision in ended.decisions} == {
        "sast_triage.route_agent_decision",
        "sast_triage.route_after_evaluation",
    }
    wanted = set(TRIAGE_EDGES)
    trace = await reviewed.collector.trace(ended.run.trace_id, until=lambda trace: wanted <= trace.edges())
    assert wanted - trace.edges() == set()
    for proof in outcome["evidence"]:
        lines = await reviewed.source.lines(proof["file"])
        assert flat(proof["quote"]) in flat("\n".join(lines[proof["first_line"] - 1 : proof["last_line"]]))


async def test_ci_can_fail_on_a_weakness(reviewed: Reviewed) -> None:
    made = portal.ServiceRepository(reviewed.source.repository, reviewed.source.commit)
    base = wanted(reviewed.folder, made)
    failing = Investigation(base.log, base.repository, known_file=base.known_file, fail_on=(Verdict.TRUE_POSITIVE,))
    assert await investigate(reviewed.connection, failing, silent()) is ExitCode.FOUND


async def test_a_repository_that_was_not_named_is_not_read(reviewed: Reviewed, tmp_path: Path) -> None:
    elsewhere = portal.create(tmp_path / "service")
    finding = {"rule_id": "B602", "file": "portal/diagnostics.py", "line": 34, "fingerprint": "elsewhere"}
    (tmp_path / "finding.json").write_text(json.dumps(finding))
    before = {run.run_id for run in await reviewed.runs()}
    status = await triage(reviewed.connection, Triage(tmp_path / "finding.json", elsewhere.path), silent())
    assert status is ExitCode.NEEDS_REVIEW
    [run_id] = {run.run_id for run in await reviewed.runs()} - before
    ended = await reviewed.running.caller(SUBJECT).wait(run_id)
    assert ended.state == "NEEDS_REVIEW"
    assert not ended.run.output.sast_triage.evidence
