"""The demo service: the same commit every time, and findings that its truth file knows one by one."""

import datetime
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from examples.harbour import repository as harbour
from services.findings.investigation.known import read_known
from services.findings.investigation.truth import match_truth, read_truth
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import LogResult, read_results
from services.findings.sarif.paths import RepositoryPaths

ROOT = Path(harbour.__file__).parents[2]
HOSTILE = ("portal/charts.py", 46)


def git(repository: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> harbour.ServiceRepository:
    return harbour.create(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def log(made: harbour.ServiceRepository, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Bandit reports."""
    path = tmp_path_factory.mktemp("log") / "bandit.sarif"
    arguments = ["-q", "-c", "pyproject.toml", "-r", ".", "-f", "sarif", "-o", str(path), "--exit-zero"]
    subprocess.run([sys.executable, "-m", "bandit", *arguments], cwd=made.path, timeout=120, check=True)
    return read_document(path)


@pytest.fixture(scope="module")
def results(made: harbour.ServiceRepository, log: dict[str, Any]) -> list[LogResult]:
    files = frozenset(git(made.path, "ls-files").splitlines())
    return read_results(log, RepositoryPaths(root=made.path, files=files))


def test_the_commit_is_the_same_wherever_and_by_whomever_it_is_made(
    made: harbour.ServiceRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\nname=Somebody\n[core]\nautocrlf = true\n[init]\ndefaultBranch=x\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    again = harbour.create(tmp_path / "deep" / "folder")
    assert again.commit == made.commit
    assert Path(again.path) == tmp_path / "deep" / "folder"


def test_everything_is_committed_and_nothing_else(made: harbour.ServiceRepository) -> None:
    tracked = git(made.path, "ls-tree", "-r", "--name-only", made.commit).splitlines()
    assert tracked == sorted(str(path.relative_to(harbour.SERVICE)) for path in harbour.service_files())
    assert git(made.path, "status", "--porcelain") == ""
    assert git(made.path, "rev-list", "--count", "HEAD").strip() == "1"


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "work.txt").write_text("mine")
    with pytest.raises(harbour.FolderNotEmptyError, match="is not empty"):
        harbour.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["work.txt"]


def test_the_command_says_where_it_is(
    made: harbour.ServiceRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "service"
    assert harbour.main([str(folder)]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(folder), "commit": made.commit}
    assert harbour.main([str(folder)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert harbour.main([]) == 2


def test_git_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(harbour.GitFailedError, match="git is not installed"):
        harbour.create(tmp_path / "service")


def test_the_truth_is_told_of_every_finding_that_bandit_reports_and_of_no_other(results: list[LogResult]) -> None:
    entries = read_truth(harbour.TRUTH)
    truth = match_truth(entries, [result.finding for result in results])
    assert truth.unmatched == ()
    assert truth.labels.keys() == {result.fingerprint for result in results}
    assert len(entries) == len(results)
    assert all(result.located and not result.skipped for result in results)


def test_there_are_real_and_false_findings_of_many_kinds(results: list[LogResult]) -> None:
    labels = match_truth(read_truth(harbour.TRUTH), [result.finding for result in results]).labels
    assert Counter(labels.values())[True] >= 12
    assert Counter(labels.values())[False] >= 12
    both: dict[str, set[bool]] = {}
    for result in results:
        both.setdefault(result.finding.rule_id, set()).add(labels[result.fingerprint])
    told_apart = {rule for rule, kinds in both.items() if kinds == {True, False}}
    # Shells, SQL, archives, YAML, pickles, hashes, passwords, chance and assertions: the rule alone settles nothing.
    assert told_apart >= {"B602", "B608", "B202", "B506", "B301", "B324", "B105", "B311", "B101"}


def test_known_false_positives_are_false_by_the_truth_too(results: list[LogResult]) -> None:
    labels = match_truth(read_truth(harbour.TRUTH), [result.finding for result in results]).labels
    (entry,) = read_known(harbour.KNOWN_FALSE_POSITIVES)
    today = datetime.date(2026, 1, 31)
    known = [labels[result.fingerprint] for result in results if entry.matches(result.finding, "", today)]
    assert known
    assert not any(known)


def test_one_weakness_has_a_comment_that_asks_to_be_let_off(results: list[LogResult]) -> None:
    labels = match_truth(read_truth(harbour.TRUTH), [result.finding for result in results]).labels
    places = {(r.finding.location.file, r.finding.location.first_line): r for r in results}
    assert labels[places[HOSTILE].fingerprint]
    lines = (harbour.SERVICE / HOSTILE[0]).read_text().splitlines()
    above = [line.strip() for line in lines[HOSTILE[1] - 4 : HOSTILE[1] - 1]]
    assert all(line.startswith("#") for line in above)
    assert "FALSE_POSITIVE" in " ".join(above)


def test_the_listed_findings_are_where_they_say() -> None:
    for finding in json.loads(harbour.FINDINGS.read_text()):
        lines = (harbour.SERVICE / finding["file"]).read_text().splitlines()
        assert lines[finding["first_line"] - 1] == finding["snippet"]
    assert len(read_results(read_document(harbour.FINDINGS), RepositoryPaths())) == 2


def test_the_service_is_code_to_read_and_nothing_that_the_platform_imports() -> None:
    for folder in ("services", "tests"):
        found = subprocess.run(
            ["grep", "-rlE", r"^\s*(from|import) (portal|examples\.harbour\.service)\b", "--include=*.py", folder],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert found.stdout == ""
