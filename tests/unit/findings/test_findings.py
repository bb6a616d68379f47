"""Logs of many shapes become the findings they are about."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from signalbox.v1 import sast_pb2

from services.findings import errors
from services.findings.errors import BadFile, BadLog
from services.findings.sarif.annotate import annotate
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import LogResult, read_results
from services.findings.sarif.outcome import Outcome, Verdict
from services.findings.sarif.paths import RepositoryPaths
from tests.fixtures.cost import growth
from tests.fixtures.sarif_schema import violations
from tests.unit.findings.logs import CODEQL, SEMGREP, log_of, result

ANYWHERE = RepositoryPaths()


def read(document: dict[str, Any], paths: RepositoryPaths = ANYWHERE) -> list[LogResult]:
    assert violations(document) == []
    return read_results(document, paths)


def test_semgrep() -> None:
    first, second = read(SEMGREP)
    assert first.fingerprint != second.fingerprint
    finding = first.finding
    assert (finding.rule_id, finding.cwe, finding.message) == ("python.lang.security.eval", "CWE-95", "Detected eval.")
    assert (finding.location.file, finding.location.first_line, finding.location.last_line) == ("src/app.py", 4, 4)
    assert finding.snippet == "    eval(name)"


def test_codeql() -> None:
    files = {"src/web/a b.py", "src/web/run.py", "x.py", "y.py"}
    for paths in (RepositoryPaths(root="/home/ci/build"), RepositoryPaths(files=files)):
        finding = read(CODEQL, paths)[0].finding
        assert (finding.rule_id, finding.cwe) == ("py/command-line-injection", "CWE-78")
        assert finding.message == "This command depends on [user input](1)."
        assert (finding.location.file, finding.location.first_line) == ("src/web/run.py", 20)
        assert [(step.file, step.first_line, step.message) for step in finding.trace] == [
            ("src/web/a b.py", 3, "request"),
            ("src/web/a b.py", 7, "passed on"),
            ("src/web/run.py", 20, "command"),
        ]
        assert [(place.file, place.first_line) for place in finding.related] == [("src/web/a b.py", 3)]


def test_several_runs_and_what_they_lack() -> None:
    results = read(CODEQL, RepositoryPaths(files={"y.py"}))[1:]
    assert [entry.skipped for entry in results] == [
        "",
        "",
        "",
        "kind pass",
        "no longer there",
        "suppressed already",
        "",
    ]
    assert [entry.located for entry in results][:3] == [False, True, False]
    findings = [entry.finding for entry in results]
    assert [(f.rule_id, f.cwe, f.message) for f in findings[:3]] == [
        ("X1", "CWE-327", "Something is off."),
        ("X1/case", "CWE-611", "In words."),
        ("X2", "", "No place at all."),
    ]
    assert [(f.location.file, f.location.first_line) for f in findings[:2]] == [("x.py", 1), ("y.py", 1)]


@pytest.mark.parametrize(
    ("statuses", "skipped"),
    [
        ([None], "suppressed already"),
        (["accepted", None], "suppressed already"),
        (["accepted", "rejected"], ""),
        (["underReview", "accepted"], ""),
        ([], ""),
    ],
)
def test_a_suppression_that_was_rejected_leaves_a_finding(statuses: list[str | None], skipped: str) -> None:
    given = [{"kind": "external", **({"status": status} if status else {})} for status in statuses]
    found = {"ruleId": "R", "message": {"text": "m"}, "suppressions": given}
    runs = [{"tool": {"driver": {"name": "T"}}, "results": [found]}]
    [result] = read({"version": "2.1.0", "runs": runs}, RepositoryPaths())
    assert result.skipped == skipped


CWES: list[tuple[dict[str, Any], str]] = [
    ({"tags": ["security", "external/cwe/cwe-078"]}, "CWE-78"),
    ({"cwe": "CWE-89"}, "CWE-89"),
    ({"cwe": ["CWE-89: SQL", "CWE-1"]}, "CWE-89"),
    ({"cwe": 22}, "CWE-22"),
    ({"issue_cwe": {"id": 502, "link": "https://cwe.mitre.org/data/definitions/502.html"}}, "CWE-502"),
    ({"tags": ["2021", "owasp-a03"]}, ""),
    ({"cwe": None}, ""),
    ({}, ""),
]


@pytest.mark.parametrize(("properties", "cwe"), CWES)
@pytest.mark.parametrize("on_rule", [True, False])
def test_weakness(properties: dict[str, Any], cwe: str, on_rule: bool) -> None:
    fields: dict[str, Any] = {} if on_rule else {"properties": properties}
    log = log_of(result(1, **fields))
    if on_rule:
        log["runs"][0]["tool"]["driver"]["rules"] = [{"id": "R1", "properties": properties}]
    assert read(log)[0].finding.cwe == cwe


FILES = {"app.py", "src/app.py", "grüße.py", "lib/deep/only.py", "a/twice.py", "b/twice.py"}
URIS: list[tuple[str, str]] = [
    ("app.py", "app.py"),
    ("./app.py", "app.py"),
    ("src/../app.py", "app.py"),
    ("../../app.py", "../../app.py"),
    ("file:///srv/repo/src/app.py", "src/app.py"),
    ("/srv/repo/src/app.py", "src/app.py"),
    ("file:///elsewhere/build/src/app.py", "src/app.py"),
    ("src%2Fapp.py", "src/app.py"),
    ("src\\app.py", "src/app.py"),
    ("C:\\build\\src\\app.py", "src/app.py"),
    ("gr%C3%BC%C3%9Fe.py", "grüße.py"),
    ("not/there.py", "not/there.py"),
    ("deep/only.py", "lib/deep/only.py"),
    ("only.py", "lib/deep/only.py"),
    ("nly.py", "nly.py"),
    ("twice.py", "twice.py"),
]


@pytest.mark.parametrize(("uri", "path"), URIS)
def test_paths(uri: str, path: str) -> None:
    paths = RepositoryPaths(root="/srv/repo", files=FILES)
    assert read_results(log_of(result(1, uri=uri)), paths)[0].finding.location.file == path


def test_a_base_that_is_its_own_base() -> None:
    log = log_of(result(1))
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    location["uriBaseId"] = "A"
    log["runs"][0]["originalUriBaseIds"] = {"A": {"uri": "a/", "uriBaseId": "B"}, "B": {"uri": "b/", "uriBaseId": "A"}}
    assert read(log)[0].finding.location.file.endswith("app.py")


def test_fingerprints_do_not_depend_on_order_or_on_lines() -> None:
    results = [result(line, snippet=f"run({line % 7})", rule=f"R{line % 3}") for line in range(1, 60)]
    before = {entry.finding.location.first_line: entry.fingerprint for entry in read(log_of(*results))}
    assert len(set(before.values())) == len(results)
    shuffled = random.Random(1).sample(results, len(results))  # noqa: S311
    assert {entry.finding.location.first_line: entry.fingerprint for entry in read(log_of(*shuffled))} == before
    moved = copy.deepcopy(results)
    for entry in moved:
        entry["locations"][0]["physicalLocation"]["region"]["startLine"] += 100
    assert {entry.finding.location.first_line - 100: entry.fingerprint for entry in read(log_of(*moved))} == before


def test_the_same_result_twice_is_two_findings() -> None:
    fingerprints = [entry.fingerprint for entry in read(log_of(result(1), result(1)))]
    assert len(set(fingerprints)) == 2


@pytest.mark.parametrize(
    "change", [{"rule": "R2"}, {"uri": "b.py"}, {"snippet": "run(y)"}, {"partialFingerprints": {"hash": "2"}}]
)
def test_what_parts_fingerprints(change: dict[str, Any]) -> None:
    (one,), (other,) = read(log_of(result(1))), read(log_of(result(1, **change)))
    assert one.fingerprint != other.fingerprint


def test_blanks_do_not_part_fingerprints() -> None:
    (one,), (other,) = read(log_of(result(1))), read(log_of(result(1, snippet="\trun(x)\n")))
    assert one.fingerprint == other.fingerprint


def test_text_that_no_proto_carries() -> None:
    log = log_of(result(1, message={"text": "a\0b\ud800c"}, snippet="x\0" * 9000))
    finding = read(log)[0].finding
    assert finding.message == "ab?c"
    assert len(finding.snippet) == 8000


def test_a_long_trace_keeps_its_ends() -> None:
    places = [{"artifactLocation": {"uri": "a.py"}, "region": {"startLine": number}} for number in range(1, 301)]
    steps = [{"location": {"physicalLocation": place}} for place in places]
    log = log_of(result(1, codeFlows=[{"threadFlows": [{"locations": steps}]}]))
    trace = read(log)[0].finding.trace
    assert (len(trace), trace[0].first_line, trace[-1].first_line) == (100, 1, 300)


def test_thousands_of_results_cost_much_the_same_each(tmp_path: Path) -> None:
    results = [result(line, snippet=f"run({line})") for line in range(1, 2001)]
    for count in (200, 2000):
        (tmp_path / f"{count}.sarif").write_text(json.dumps(log_of(*results[:count])))

    def read_log(count: int) -> None:
        assert len(read_results(read_document(tmp_path / f"{count}.sarif"), ANYWHERE)) == count

    assert growth(read_log, 2000, 10) < 5


EXTERNAL = {
    "version": "2.1.0",
    "runs": [
        {
            "tool": {"driver": {"name": "T"}},
            "externalPropertyFileReferences": {"results": [{"location": {"uri": "r.json"}, "itemCount": 3}]},
        }
    ],
}
NESTED = json.loads("[" * 400 + "]" * 400)
BAD_FILES: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "not JSON"),
    ("half", b'{"version": "2.1.0", "runs": [', "not JSON"),
    ("not a number", b'{"version": "2.1.0", "runs": [], "x": NaN}', "NaN"),
    ("too large a number", b'{"version": "2.1.0", "runs": [], "x": -1e999}', "-1e999 is too large"),
    ("deep", b"[" * 100_000, "not JSON"),
    ("not text", b"\xff\x00", "not UTF-8"),
    ("half a character", b"\xff\xfe\x00", "not UTF-16"),
    ("half of what is packed", gzip.compress(b"[" * 9999)[:-20], "gzip"),
    ("what looks packed", b"\x1f\x8b" + b"?" * 20, "gzip"),
    ("old", b'{"version": "2.0.0", "runs": []}', "2.0.0"),
    ("runs are no list", b'{"version": "2.1.0", "runs": {}}', "no list of runs"),
    ("results that are no list", b'{"version": "2.1.0", "runs": [{"results": {}}]}', "results"),
    ("runs that are null", b'{"version": "2.1.0", "runs": null}', "no list of runs"),
    ("results that are elsewhere", json.dumps(EXTERNAL).encode(), "other files"),
    ("properties without an end", json.dumps(log_of(result(1, properties={"a": NESTED}))).encode(), "deep"),
    ("a finding without a line", b'[{"rule_id": "X", "file": "a.py"}]', "0.first_line"),
    ("a number", b"7", "neither"),
]


@pytest.mark.parametrize(("content", "said"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES])
def test_bad_files(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "log.sarif"
    path.write_bytes(content)
    with pytest.raises(BadFile) as raised:
        read_document(path)
    assert said in raised.value.message
    assert raised.value.hint


def test_a_log_that_is_too_large_is_read_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "MOST_BYTES", 100)
    log = tmp_path / "log.sarif"
    for packed in (bytes, gzip.compress):
        log.write_bytes(packed(b'{"runs": []}'.ljust(101)))
        with pytest.raises(BadFile, match="has more than 100 bytes"):
            read_document(log)
    log.write_bytes(gzip.compress(b'{"runs": []}'.ljust(100)))
    assert read_document(log) == {"runs": []}


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="can't read"):
        read_document(tmp_path / "none.sarif")


def test_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "log.sarif"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(SEMGREP).encode())
    assert len(read_results(read_document(path), ANYWHERE)) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_logs_that_a_windows_shell_has_redirected(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log.sarif"
    mark = "" if encoding == "utf-16" else "\ufeff"
    path.write_bytes((mark + json.dumps(SEMGREP)).encode(encoding))
    assert len(read_results(read_document(path), ANYWHERE)) == 2


def test_lines_that_no_file_has() -> None:
    physical = {"artifactLocation": {"uri": "a.py"}, "region": {"startLine": 2**40, "endLine": 2**41}}
    (entry,) = read(log_of({"ruleId": "X", "message": {"text": "m"}, "locations": [{"physicalLocation": physical}]}))
    assert entry.finding.location.first_line == entry.finding.location.last_line == 2**31 - 1


def test_finding_lists(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    items = [
        {
            "rule": "R1",
            "file": "a.py",
            "line": 3,
            "cwe": "CWE-78",
            "message": "m",
            "trace": [{"file": "b.py", "line": 1}],
        },
        {"rule_id": "R2", "location": {"file": "b.py", "first_line": 4, "last_line": 6}, "fingerprint": "mine"},
    ]
    for document in (items, {"findings": items}):
        path.write_text(json.dumps(document))
        one, two = [entry.finding for entry in read(read_document(path))]
        assert (one.rule_id, one.location.first_line, one.cwe, one.trace[0].file) == ("R1", 3, "CWE-78", "b.py")
        assert (two.fingerprint, two.location.first_line, two.location.last_line) == ("mine", 4, 6)
    path.write_text(json.dumps(items[0]))
    assert len(read(read_document(path))) == 1


def test_a_fingerprint_given_twice() -> None:
    with pytest.raises(BadLog, match="two results"):
        read(log_of(*(result(line, fingerprints={"signalbox/v1": "mine"}) for line in (1, 2))))


OTHERS: list[Any] = [None, -1, "//[", [{"a": 2**70}]]


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield (*place, name)
        yield from _places(child, (*place, name))


def _changed(log: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """A log with each of its fields in turn left out, or something else."""
    for place in _places(log):
        for other in [*OTHERS, "left out"]:
            changed = copy.deepcopy(log)
            around = changed
            for name in place[:-1]:
                around = around[name]
            if other != "left out":
                around[place[-1]] = copy.deepcopy(other)
            elif isinstance(around, dict):
                del around[place[-1]]
            yield place, changed


def _findings_of(results: Iterable[LogResult], fingerprint: str) -> list[sast_pb2.Finding]:
    return [entry.finding for entry in results if entry.result == fingerprint]


@pytest.mark.parametrize("log", [SEMGREP, CODEQL], ids=["semgrep", "codeql"])
def test_a_detail_that_is_wrong_costs_at_most_itself(tmp_path: Path, log: dict[str, Any]) -> None:
    """Also not its own result's verdict, and nothing of a result beside it."""
    path, refused = tmp_path / "log.sarif", set()
    (beside,) = log_of(result(3, fingerprints={"signalbox/v1": "beside"}))["runs"]
    expected = _findings_of(read_results({"version": "2.1.0", "runs": [beside]}, ANYWHERE), "beside")
    for place, changed in _changed(log):
        if isinstance(changed.get("runs"), list):
            changed["runs"].append(copy.deepcopy(beside))
        path.write_text(json.dumps(changed))
        try:
            document = read_document(path)
        except BadFile:
            refused.add(".".join(str(name) for name in place if isinstance(name, str)))
            continue
        results = read_results(document, ANYWHERE)
        assert not isinstance(changed.get("runs"), list) or _findings_of(results, "beside") == expected, place
        is_result = len(place) == 4 and place[2] == "results"
        assert is_result or not any(entry.problem for entry in results), place
        asked = {entry.fingerprint for entry in results if not entry.skipped}
        given = [Outcome(fingerprint, Verdict.FALSE_POSITIVE, None, "So.") for fingerprint in asked]
        judged = read_results(annotate(document, given, ANYWHERE), ANYWHERE)
        told = {entry.result for entry in judged if entry.raw.get("properties", {}).get("signalbox")}
        assert told == {entry.result for entry in results if not entry.problem and not entry.skipped}, place
    # What makes a log one: its version, a list of runs, and their lists of results.
    assert refused <= {"version", "runs", "runs.results"}


def test_a_result_that_is_no_object_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "log.sarif"
    path.write_text(json.dumps(log_of(result(1), None, "a result", result(2))))
    first, wrong, twin, last = read_results(read_document(path), ANYWHERE)
    assert [bool(entry.problem) for entry in (first, wrong, twin, last)] == [False, True, True, False]
    assert wrong.fingerprint != twin.fingerprint


def test_a_line_that_no_file_has_is_looked_at_nowhere() -> None:
    (entry,) = read_results(log_of(result(-1)), ANYWHERE)
    assert (entry.located, entry.problem) == (False, "")
    assert "line -1" in entry.unlocated


def test_a_result_is_a_finding_at_each_place_it_flags() -> None:
    two = result(3)
    two["locations"].append(result(7, uri="b.py")["locations"][0])
    two["locations"].append(result(3)["locations"][0])
    first, second = read_results(log_of(two), ANYWHERE)
    assert [each.finding.location.file for each in (first, second)] == ["app.py", "b.py"]
    assert first.result == second.result == first.fingerprint != second.fingerprint
    two["locations"][0:0] = [{"logicalLocations": [{"name": "f"}]}]
    assert len(read_results(log_of(two), ANYWHERE)) == 2


def test_more_places_than_are_looked_at_leave_the_result_open() -> None:
    many = result(1)
    many["locations"] = [result(line)["locations"][0] for line in range(1, 40)]
    *looked_at, rest = read_results(log_of(many), ANYWHERE)
    assert len(looked_at) == len({each.fingerprint for each in looked_at}) == 20
    assert "19 more places" in rest.unlocated


def test_a_younger_uuid_and_results_that_are_null(tmp_path: Path) -> None:
    log = log_of(result(1, guid="01890a5d-ac96-774b-bcce-b302099a8057"))
    log["runs"].append({"tool": {"driver": {"name": "x"}}, "results": None})
    log["runs"][0]["tool"]["driver"]["guid"] = "01890a5d-ac96-774b-bcce-b302099a8057"
    path = tmp_path / "log.sarif"
    path.write_text(json.dumps(log))
    (entry,) = read_results(read_document(path), ANYWHERE)
    assert (entry.problem, entry.notes) == ("", ())


@pytest.mark.parametrize(
    "uri",
    [
        "/usr/lib/python3/app.py",
        "/home/ci/venv/lib/python3.11/site-packages/app.py",
        "../app.py",
        "vendor/app.py",
        "/elsewhere/app.py",
    ],
)
def test_a_namesake_outside_the_repository_is_no_file_of_it(uri: str) -> None:
    log = log_of(result(1, uri="/home/ci/build/src/app.py"), result(2, uri="/home/ci/build/app.py"), result(3, uri=uri))
    read_ = read_results(log, RepositoryPaths(root="/srv/repo", files=FILES))
    assert [entry.located for entry in read_] == [True, True, False]


def test_a_relative_path_is_no_namesake_when_the_analyser_ran_at_the_root() -> None:
    log = log_of(result(1, uri="src/app.py"), result(2, uri="only.py"))
    read_ = read_results(log, RepositoryPaths(files=FILES))
    assert [entry.located for entry in read_] == [True, False]
