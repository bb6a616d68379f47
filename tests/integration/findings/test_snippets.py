"""What a log quotes is held against the commit, in a real repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.findings.investigation.repository import open_source
from services.findings.investigation.snippets import with_checked_snippets
from services.findings.sarif.findings import LogResult, read_results
from services.findings.sarif.paths import RepositoryPaths
from tests.integration.code_executor.git_repository import GITLINK, LINK, Content, GitRepository, Special

CODE = "import os\n\n\ndef run(name):\n    os.system(\n        'ping ' + name\n    )\n"
CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("the line", {"startLine": 5, "snippet": {"text": "    os.system("}}, True),
    ("a part of it", {"startLine": 5, "startColumn": 8, "snippet": {"text": "system"}}, True),
    ("several lines", {"startLine": 5, "endLine": 7, "snippet": {"text": "os.system(\n'ping ' + name\n)"}}, True),
    ("more lines than the region says", {"startLine": 5, "snippet": {"text": "os.system(\n'ping ' + name"}}, True),
    ("none", {"startLine": 5}, True),
    ("a placeholder", {"startLine": 5, "snippet": {"text": "requires login"}}, True),
    ("another line", {"startLine": 4, "snippet": {"text": "os.system('ping ' + name)"}}, False),
    ("other code", {"startLine": 5, "snippet": {"text": "eval(name)"}}, False),
]


@pytest.mark.parametrize(("region", "holds"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_a_snippet_that_contradicts_the_commit_is_noted_and_left_out(
    tmp_path: Path, region: dict[str, Any], holds: bool
) -> None:
    repository = GitRepository(tmp_path / "project")
    repository.commit({"app.py": CODE})
    source = await open_source(str(repository.path), "")
    result = {
        "ruleId": "X",
        "message": {"text": "m"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "app.py"}, "region": region}}],
    }
    log = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": [result]}]}
    (found,) = await with_checked_snippets(read_results(log, RepositoryPaths(files=source.files)), source)
    assert (found.notes == ()) is holds
    assert found.finding.snippet == "" or holds


@pytest.mark.parametrize(
    ("line", "located"), [(1, True), (7, True), (8, True), (10, False), (99_999, False), (10**12, False)]
)
@pytest.mark.parametrize("snippet", ["", "eval(name)"])
async def test_what_is_flagged_behind_the_end_of_a_file_is_no_code_to_look_at(
    tmp_path: Path, line: int, located: bool, snippet: str
) -> None:
    repository = GitRepository(tmp_path / "project")
    repository.commit({"app.py": CODE})
    (found,) = await _checked(repository, _flagged("app.py", line, snippet))
    assert found.located is located
    assert ("app.py, which ends before that" in found.unlocated) is not located


async def test_of_a_repository_by_url_the_platform_is_asked_to_look() -> None:
    source = await open_source("https://git.example.com/fleet/portal", "0" * 40)
    regions = [
        {"startLine": 5, "snippet": {"text": "eval(name)"}},
        {"startLine": 5, "snippet": {"text": "requires login"}},
        {"startLine": 5},
    ]
    around = {"startLine": 1, "snippet": {"text": "import os"}}
    places = [{"artifactLocation": {"uri": "app.py"}, "region": region, "contextRegion": around} for region in regions]
    results = [{"ruleId": "X", "message": {"text": "m"}, "locations": [{"physicalLocation": one}]} for one in places]
    log = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": results}]}
    found = await with_checked_snippets(read_results(log, RepositoryPaths()), source)
    assert [one.finding.check_snippet for one in found] == [True, False, False]
    assert [one.notes for one in found] == [(), (), ()]


def _flagged(file: str, line: int, snippet: str) -> dict[str, Any]:
    region = {"startLine": line, "snippet": {"text": snippet}}
    place = {"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}
    return {"ruleId": "X", "message": {"text": "m"}, "locations": [place]}


async def _checked(repository: GitRepository, *results: dict[str, Any]) -> list[LogResult]:
    source = await open_source(str(repository.path), "")
    log = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": list(results)}]}
    return await with_checked_snippets(read_results(log, RepositoryPaths(files=source.files)), source)


async def test_what_is_no_file_with_lines_costs_that_finding_alone(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "project")
    files: dict[str | bytes, Content] = {
        "app.py": CODE,
        "vendor/module": Special(GITLINK, commit="b" * 40),
        "link.py": Special(LINK, b"app.py"),
        b"caf\xe9.py": "x = 1\n",
    }
    repository.commit(files)
    places = [("app.py", 1, "import os"), ("vendor/module", 1, "x"), ("link.py", 1, "import os"), ("caf%E9.py", 1, "y")]
    found = await _checked(repository, *[_flagged(*place) for place in places])
    assert [(one.located, one.notes) for one in found] == [(True, ()), (False, ()), (False, ()), (True, ())]


ENCODED = [
    ("latin-1", "os.system('echo café ' + cmd)", True),
    ("latin-1", "os.system('echo cafe ' + cmd)", False),
    ("latin-1", "os.system('echo café ' + name)", False),
    ("cp1252", "os.system('grüße — 5 €' + cmd)", True),
    ("gb18030", "os.system('运行 ' + cmd)", True),
    ("euc-kr", "os.system('실행 ' + cmd)", True),
    ("utf-8", "os.system('echo café ' + cmd)", True),
]


@pytest.mark.parametrize(("encoding", "quoted", "holds"), ENCODED)
async def test_a_snippet_is_held_against_a_line_that_is_not_utf_8(
    tmp_path: Path, encoding: str, quoted: str, holds: bool
) -> None:
    line = quoted if holds else ENCODED[0][1]
    repository = GitRepository(tmp_path / "project")
    repository.commit({"a.py": f"import os\n{line}\n".encode(encoding)})
    (found,) = await _checked(repository, _flagged("a.py", 2, quoted))
    assert (found.notes == ()) is holds
    assert found.finding.snippet == "" or holds


async def test_a_carriage_return_alone_may_end_a_line_or_not(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "project")
    repository.commit({"a.py": b"import os\ros.system(x)\rimport re\nos.system(y)\n"})
    places = [(1, "import os"), (2, "os.system(x)"), (2, "os.system(y)"), (4, "os.system(y)"), (3, "os.system(x)")]
    found = await _checked(repository, *[_flagged("a.py", line, snippet) for line, snippet in places])
    assert [one.notes == () for one in found] == [True, True, True, True, False]
