"""The commands, from a log on disk to files on disk and an exit status."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console
from signalbox.v1 import batches_pb2, caller_pb2, runs_pb2, sast_pb2

from services.cli.client import Connection
from services.cli.errors import CliError, from_findings
from services.cli.exit_codes import ExitCode
from services.cli.findings_batch import BatchPolicy
from services.cli.investigate import investigate
from services.cli.investigation import Investigation, summarise
from services.cli.terminal import Terminal
from services.cli.triage import Triage, triage
from services.findings.errors import FindingsError
from services.findings.sarif.outcome import Verdict
from services.kit.models.offline_rules import OFFLINE_RULES
from tests.fixtures.sarif_schema import violations
from tests.integration.findings.conftest import Serving, serving
from tests.integration.findings.fake_platform import (
    Ending,
    FakePlatform,
    succeed,
    succeed_by_rules,
    succeed_unmeasured,
    verdict_for,
)

LINES = (5, 6, 7, 8, 9, 10)
EVIL = "</pre><script>alert(1)</script>\u202e"


def result(line: int, **fields: Any) -> dict[str, Any]:
    physical = {"artifactLocation": {"uri": "src/app.py"}, "region": {"startLine": line}}
    message = {"text": f"Line {line} {EVIL}"}
    return {"ruleId": "B602", "message": message, "locations": [{"physicalLocation": physical}], **fields}


def log(*extra: dict[str, Any]) -> dict[str, Any]:
    rules = [{"id": "B602", "properties": {"tags": ["external/cwe/cwe-78"]}}]
    results = [*(result(line) for line in LINES), *extra]
    return {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "Bandit", "rules": rules}}, "results": results}]}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "log.sarif"
    path.write_text(json.dumps(log({"ruleId": "X", "message": {"text": "nowhere"}}, result(11, kind="pass"))))
    return path


def head_of(repository: Path) -> str:
    """The commit of a repository."""
    command = ["git", "-C", str(repository), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Screen:
    """A terminal whose output a test can read."""

    def __init__(self) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.terminal = Terminal(Console(file=self.out, width=200), Console(file=self.err, width=200))


async def run(at: Serving, wanted: Investigation) -> tuple[ExitCode, Screen]:
    screen = Screen()
    return await investigate(at.connection, wanted, screen.terminal), screen


async def test_from_log_to_files(written: Path, repository: Path, tmp_path: Path) -> None:
    known, truth, out = tmp_path / "known.yaml", tmp_path / "truth.csv", tmp_path / "out.sarif"
    known.write_text("known_false_positives: [{rule: B602, path: 'src/*', reason: Old., until: 2020-01-01}]")
    truth.write_text(
        "rule,file,line,is_vulnerable\nB602,src/app.py,6,true\nB602,src/app.py,7,true\nB602,gone.py,1,true\n"
    )
    async with serving(FakePlatform()) as at:
        code, screen = await run(
            at, Investigation(written, str(repository), known_file=known, truth_file=truth, out=out)
        )
    assert code is ExitCode.OK
    annotated = json.loads(out.read_text())
    assert violations(annotated) == []
    expected = {line: (Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE, Verdict.NEEDS_REVIEW)[line % 3] for line in LINES}
    found = {}
    for entry in annotated["runs"][0]["results"]:
        ours = entry.get("properties", {}).get("signalbox")
        if ours and entry.get("locations"):
            region = entry["locations"][0]["physicalLocation"]["region"]
            found[region["startLine"]] = ours["verdict"]
            assert ours["evidence"][0]["firstLine"] == region["startLine"]
            assert bool(entry.get("suppressions")) == (ours["verdict"] == Verdict.FALSE_POSITIVE)
    assert found == expected
    [provenance] = annotated["runs"][0]["versionControlProvenance"]
    assert len(provenance["revisionId"]) == 40
    assert "ground truth about no finding: B602 gone.py:1" in screen.out.getvalue()
    assert "left out: 1 kind pass" in screen.out.getvalue()
    assert "[6/6]" in screen.err.getvalue()


async def test_a_result_with_two_places_is_suppressed_only_if_it_is_false_at_both(
    repository: Path, tmp_path: Path
) -> None:
    given, out = tmp_path / "log.sarif", tmp_path / "out.sarif"
    both = [{**result(first), "locations": result(first)["locations"] + result(second)["locations"]}
            for first, second in ((7, 6), (7, 10), (7, 8))]  # fmt: skip
    given.write_text(json.dumps({"version": "2.1.0", "runs": [{"results": both}]}))
    async with serving(FakePlatform()) as at:
        await run(at, Investigation(given, str(repository), out=out))
    judged = json.loads(out.read_text())["runs"][0]["results"]
    told = [(each["properties"]["signalbox"]["verdict"], len(each["suppressions"])) for each in judged]
    assert told == [("TRUE_POSITIVE", 0), ("FALSE_POSITIVE", 1), ("NEEDS_REVIEW", 0)]
    places = judged[0]["properties"]["signalbox"]["places"]
    assert [(each["place"], each["verdict"]) for each in places] == [
        ("src/app.py:7", "FALSE_POSITIVE"),
        ("src/app.py:6", "TRUE_POSITIVE"),
    ]


def log_of_commit(folder: Path, commit: str) -> Path:
    """A log that says which commit it is of."""
    analysed = log()
    analysed["runs"][0]["versionControlProvenance"] = [{"repositoryUri": "https://example.com", "revisionId": commit}]
    path = folder / f"{commit}.sarif"
    path.write_text(json.dumps(analysed))
    return path


def commit_again(repository: Path) -> str:
    """Commits nothing, and returns the commit before."""
    before, author = head_of(repository), ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(repository), *author, "commit", "-q", "--allow-empty", "-m", "b"], check=True)
    return before


async def test_the_commit_that_a_log_is_of_is_the_one_looked_at(repository: Path, tmp_path: Path) -> None:
    first = commit_again(repository)
    given, strange = log_of_commit(tmp_path, first), log_of_commit(tmp_path, "f" * 40)
    async with serving(FakePlatform()) as at:
        looked_at = await summarise(at.connection, Investigation(given, str(repository)), Screen().terminal)
        assert looked_at.commit == first
        with pytest.raises(FindingsError, match=f"the log is of commit {first[:12]}"):
            await run(at, Investigation(given, str(repository), commit="HEAD"))
        with pytest.raises(FindingsError, match="which this repository does not have"):
            await run(at, Investigation(strange, str(repository)))


async def test_json(written: Path, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(FakePlatform()) as at:
        code, screen = await run(at, Investigation(written, str(repository), as_json=True))
    data = json.loads(capsys.readouterr().out)
    assert (code, screen.out.getvalue()) == (ExitCode.OK, "")
    assert data["verdicts"] == {"TRUE_POSITIVE": 2, "FALSE_POSITIVE": 2, "NEEDS_REVIEW": 3}
    assert data["stop_reasons"] == {"no_location": 1}
    assert data["tokens"] == {"input": 60, "output": 12, "total": 72}
    assert data["by_cwe"]["CWE-78"] == {"TRUE_POSITIVE": 2, "FALSE_POSITIVE": 2, "NEEDS_REVIEW": 2}
    assert data["skipped"] == {"kind pass": 1}
    assert data["commit"] == head_of(repository)


@pytest.mark.parametrize(("ending", "shown"), [(succeed, True), (succeed_unmeasured, False)])
async def test_confidence_is_shown_when_it_was_measured(
    written: Path, repository: Path, tmp_path: Path, ending: Ending, shown: bool
) -> None:
    pytest.importorskip("jinja2")
    out, html, truth = tmp_path / "out.sarif", tmp_path / "report.html", tmp_path / "truth.csv"
    truth.write_text("rule,file,line,is_vulnerable\nB602,src/app.py,6,true\n")
    finding = tmp_path / "finding.json"
    finding.write_text(json.dumps({"rule": "B602", "file": "src/app.py", "line": 6, "cwe": "CWE-78"}))
    alone = Screen()
    async with serving(FakePlatform()) as at:
        at.platform.ending = ending
        _, screen = await run(at, Investigation(written, str(repository), out=out, html=html, truth_file=truth))
        await triage(at.connection, Triage(finding, str(repository)), alone.terminal)
    results = json.loads(out.read_text())["runs"][0]["results"]
    ours = [result["properties"]["signalbox"] for result in results if "properties" in result]
    assert any("confidence" in properties for properties in ours) is shown
    assert all(properties["verdict"] for properties in ours)
    assert ("0.80" in screen.out.getvalue(), "0.80" in alone.out.getvalue()) == (shown, shown)
    assert ("80 % sure" in Page(html.read_text()).text, "Confidence" in Page(html.read_text()).text) == (shown, shown)


async def test_what_no_language_model_decided_says_so_everywhere(
    written: Path, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    out, html, finding = tmp_path / "out.sarif", tmp_path / "report.html", tmp_path / "finding.json"
    finding.write_text(json.dumps({"rule": "B602", "file": "src/app.py", "line": 6, "cwe": "CWE-78"}))
    alone = Screen()
    async with serving(FakePlatform()) as at:
        at.platform.ending = succeed_by_rules
        _, screen = await run(at, Investigation(written, str(repository), out=out, html=html, accept=True))
        await triage(at.connection, Triage(finding, str(repository)), alone.terminal)
        await triage(at.connection, Triage(finding, str(repository), as_json=True), Screen().terminal)
    for told in (screen.out.getvalue(), alone.out.getvalue(), Page(html.read_text()).text):
        assert OFFLINE_RULES in told
        assert "0.80" not in told
        assert "80 % sure" not in told
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["decided_by"], outcome["confidence"]) == (OFFLINE_RULES, None)
    log = json.loads(out.read_text())
    suppressed = [one for each in log["runs"] for result in each["results"] for one in result.get("suppressions", [])]
    assert "underReview" in {one.get("status") for one in suppressed}
    assert "accepted" not in {one.get("status") for one in suppressed if "signalbox" in one.get("properties", {})}
    extensions = [each for one in log["runs"] for each in one["tool"].get("extensions", [])]
    assert OFFLINE_RULES in {each.get("shortDescription", {}).get("text") for each in extensions}


async def test_known_false_positives_need_no_run(written: Path, repository: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.yaml"
    known.write_text("known_false_positives: [{rule: B602, path: '**', reason: We know.}]")
    async with serving(FakePlatform()) as at:
        code, screen = await run(at, Investigation(written, str(repository), known_file=known))
    assert code is ExitCode.OK
    assert not at.platform.runs
    assert "We know." in screen.out.getvalue()


@pytest.mark.parametrize(
    ("fail_on", "failed", "code"),
    [
        ((), False, ExitCode.OK),
        ((Verdict.TRUE_POSITIVE,), False, ExitCode.FOUND),
        ((), True, ExitCode.RUN_FAILED),
        ((Verdict.TRUE_POSITIVE,), True, ExitCode.RUN_FAILED),
        ((Verdict.NEEDS_REVIEW,), True, ExitCode.FOUND),
    ],
)
async def test_exit_status(
    written: Path, repository: Path, fail_on: tuple[Verdict, ...], failed: bool, code: ExitCode
) -> None:
    async with serving(FakePlatform()) as at:
        if failed:
            at.platform.ending = lambda *_: runs_pb2.Run(state=runs_pb2.RUN_STATE_FAILED, error="no model")
        assert (await run(at, Investigation(written, str(repository), fail_on=fail_on)))[0] is code


async def test_after_an_interrupt_the_batch_goes_on_and_the_same_command_follows_it(
    written: Path, repository: Path
) -> None:
    async with serving(FakePlatform()) as at:
        at.platform.gate.clear()
        screen = Screen()
        wanted = Investigation(written, str(repository), policy=BatchPolicy(max_runs=3))
        task = asyncio.create_task(investigate(at.connection, wanted, screen.terminal))
        async with asyncio.timeout(60):
            while not at.platform.runs:  # noqa: ASYNC110 - another task's
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [batch_id] = at.batches.batches
        said = " ".join(screen.err.getvalue().split())
        assert f"`signalbox batches watch {batch_id}` follows it" in said
        assert not at.platform.cancelled
        at.platform.gate.set()
        # However many at once are asked for now.
        code, screen = await run(at, replace(wanted, policy=BatchPolicy(max_runs=5)))
        assert (code, list(at.batches.batches)) == (ExitCode.OK, [batch_id])
        assert "it runs 3 at once at most, and not 5" in " ".join(screen.err.getvalue().split())
        assert set(at.platform.started.values()) == {1}


async def test_an_upload_that_is_interrupted_is_told_and_one_that_is_cancelled_judges_nothing(
    written: Path, repository: Path
) -> None:
    wanted, screen = Investigation(written, str(repository)), Screen()
    async with serving(FakePlatform()) as at:
        at.batches.takes_items.clear()
        task = asyncio.create_task(investigate(at.connection, wanted, screen.terminal))
        async with asyncio.timeout(60):
            while not at.batches.batches:  # noqa: ASYNC110 - another task's
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "the batch may have started, or not" in " ".join(screen.err.getvalue().split())
        [batch] = at.batches.batches.values()
        batch.state = batches_pb2.BATCH_STATE_CANCELLED
        code, screen = await run(at, wanted)
    assert (code, at.platform.runs) == (ExitCode.RUN_FAILED, {})
    assert screen.out.getvalue().count("the batch was cancelled before the finding was added to it") == len(LINES)


async def test_failed_findings_are_run_again_only_when_asked_to(written: Path, repository: Path) -> None:
    def fails_first(finding: sast_pb2.Finding, attempt: int) -> runs_pb2.Run:
        return succeed(finding, attempt) if attempt else runs_pb2.Run(state=runs_pb2.RUN_STATE_FAILED, error="no model")

    async with serving(FakePlatform()) as at:
        at.platform.ending = fails_first
        wanted = Investigation(written, str(repository))
        assert [(await run(at, wanted))[0] for _ in range(2)] == [ExitCode.RUN_FAILED] * 2
        again = Investigation(written, str(repository), policy=BatchPolicy(rerun_failed=True))
        assert (await run(at, again))[0] is ExitCode.OK


async def test_where_there_is_no_service_for_batches_that_is_said(written: Path, repository: Path) -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        with pytest.raises(CliError, match="has no service for batches") as refused:
            await investigate(
                Connection(f"127.0.0.1:{port}", "token"), Investigation(written, str(repository)), Screen().terminal
            )
    finally:
        await server.stop(None)
    assert "services.batches.enabled=true" in refused.value.hint


async def test_what_is_wrong_is_said_before_anything_runs(written: Path, repository: Path, tmp_path: Path) -> None:
    bad = [
        Investigation(tmp_path / "none.sarif", str(repository)),
        Investigation(written, str(tmp_path / "nowhere")),
        Investigation(written, str(repository), "0" * 40),
        Investigation(written, str(repository), "--upload-pack=x"),
        Investigation(written, "https://example.org/repo.git", "main"),
        Investigation(written, str(repository), out=tmp_path / "no" / "out.sarif"),
        Investigation(written, str(repository), out=tmp_path),
        Investigation(written, str(repository), html=Path("/proc/report.html")),
        Investigation(written, str(repository), html=written),
        Investigation(written, str(repository), out=tmp_path / "same", html=tmp_path / "." / "same"),
        Investigation(written, str(repository), known_file=tmp_path / "none.yaml"),
        Investigation(written, str(repository), truth_file=tmp_path / "none.csv"),
    ]
    async with serving(FakePlatform()) as at:
        for wanted in bad:
            with pytest.raises((CliError, FindingsError)) as raised:
                await run(at, wanted)
            wrong = raised.value
            shown = from_findings(wrong) if isinstance(wrong, FindingsError) else wrong
            assert isinstance(shown, CliError)
            assert shown.code is ExitCode.USAGE
            assert shown.hint
        assert not at.platform.runs


class Page(HTMLParser):
    """Counts a page's elements and collects its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def tell_of_flow(written: Path) -> None:
    """Has a log's first result, an error, come from another line."""
    given = json.loads(written.read_text())
    first = given["runs"][0]["results"][0]
    source = {"physicalLocation": {"artifactLocation": {"uri": "src/app.py"}, "region": {"startLine": 1}}}
    steps = [{"location": source}, {"location": first["locations"][0]}]
    first |= {"codeFlows": [{"threadFlows": [{"locations": steps}]}], "level": "error"}
    written.write_text(json.dumps(given))


async def test_report(written: Path, repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    html, truth = tmp_path / "report.html", tmp_path / "truth.csv"
    truth.write_text("rule,file,line,is_vulnerable\nB602,src/app.py,6,true\n")

    def ending(finding: sast_pb2.Finding, _: int) -> runs_pb2.Run:
        cited = [sast_pb2.Evidence(claim=EVIL, file="src/app.py", first_line=5, last_line=6, commit="0" * 40)]
        gone = [sast_pb2.Evidence(claim="Elsewhere.", file="gone.py", first_line=1, last_line=1, commit="0" * 40)]
        output = sast_pb2.SastInvestigationOutput(
            verdict=verdict_for(finding),
            confidence=1.0,
            justification=EVIL,
            evidence=[*cited, *gone],
            token_usage=caller_pb2.TokenUsage(total_tokens=1),
        )
        return runs_pb2.Run(
            state=runs_pb2.RUN_STATE_SUCCEEDED,
            stop_reason=EVIL,
            output=runs_pb2.RunOutput(sast_investigation=output),
        )

    tell_of_flow(written)
    async with serving(FakePlatform()) as at:
        at.platform.ending = ending
        await run(at, Investigation(written, str(repository), html=html, truth_file=truth))
    page = Page(html.read_text())
    # The page's own: what came from elsewhere brings none, and nothing is fetched.
    assert page.tags.count("script") == 1
    assert not [link for link in page.links if not link.startswith("#")]
    # Whatever is decided of a finding has been seen: its own message, though all ended for the same reason.
    assert page.tags.count("details") == len(LINES) + 1
    assert all(f"Line {line} " in page.text for line in LINES)
    assert page.text.count("ended by") == len(LINES) + 1
    assert "source src/app.py:1" in " ".join(page.text.split())
    assert "high" in page.text
    assert "alert(1)" in page.text
    assert "\u202e" not in page.text
    assert "subprocess.run(name, shell=True)" in page.text
    assert "The code is not at this commit." in page.text
    assert "Against the ground truth" in page.text


async def test_report_of_nothing(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    path, html = tmp_path / "log.sarif", tmp_path / "report.html"
    empty = copy.deepcopy(log())
    empty["runs"][0]["results"] = []
    path.write_text(json.dumps(empty))
    async with serving(FakePlatform()) as at:
        assert (await run(at, Investigation(path, str(repository), html=html)))[0] is ExitCode.OK
    assert "0" in Page(html.read_text()).text


async def test_triage(repository: Path, tmp_path: Path) -> None:
    path = tmp_path / "finding.json"
    path.write_text(json.dumps({"rule": "B602", "file": "src/app.py", "line": 6, "cwe": "CWE-78"}))
    screen = Screen()
    async with serving(FakePlatform()) as at:
        wanted = Triage(path, str(repository), fail_on=(Verdict.TRUE_POSITIVE,))
        assert await triage(at.connection, wanted, screen.terminal) is ExitCode.FOUND
        (started,) = at.platform.runs.values()
    assert started.input.WhichOneof("agent") == "sast_triage"
    assert "TRUE_POSITIVE" in screen.out.getvalue()
    assert "src/app.py:6-6" in screen.out.getvalue()


async def test_triage_wants_one_finding(written: Path, repository: Path) -> None:
    async with serving(FakePlatform()) as at:
        with pytest.raises(CliError, match="such findings with a place, not one") as raised:
            await triage(at.connection, Triage(written, str(repository)), Screen().terminal)
        fingerprint = raised.value.message.split("\n")[3].split()[0]
        code = await triage(at.connection, Triage(written, str(repository), fingerprint=fingerprint), Screen().terminal)
    assert code in (ExitCode.OK, ExitCode.NEEDS_REVIEW)
    assert len(at.platform.runs) == 1
