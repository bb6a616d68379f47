"""A log comes back with its verdicts, and otherwise as it was."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sarif.loader import load_sarif_files
from sarif.operations.diff_op import print_diff

from services.findings.errors import UnmatchedResults
from services.findings.sarif.annotate import annotate
from services.findings.sarif.documents import write_json
from services.findings.sarif.findings import read_results
from services.findings.sarif.outcome import Evidence, Outcome, Verdict
from services.findings.sarif.paths import RepositoryPaths
from services.kit.models.offline_rules import OFFLINE_RULES
from tests.fixtures.sarif_schema import violations
from tests.unit.findings.logs import CODEQL, SEMGREP, log_of, result

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
            evidence=(Evidence("It is so.", "app.py", 1, 2, "0" * 40, "run(x)"),),
            run_id=f"run-{number}",
        )
        for number, entry in enumerate(wanted)
    ]


def test_a_confidence_that_was_not_measured_is_left_out() -> None:
    log = log_of(result(1))
    [outcome] = outcomes_of(log)
    for confidence in (0.5, None):
        annotated = annotate(log, [replace(outcome, confidence=confidence)], ANYWHERE)
        [entry] = annotated["runs"][0]["results"]
        assert entry["properties"]["signalbox"].get("confidence", "left out") == (confidence or "left out")
        assert violations(annotated) == []


def stripped(document: dict[str, Any]) -> dict[str, Any]:
    """A log without what an annotation adds."""
    plain = copy.deepcopy(document)
    for run in plain["runs"]:
        for entry in run.get("results", []):
            ours = entry.get("properties", {}).pop("signalbox", None)
            if ours and ours["message"] in entry["message"]["text"]:
                entry["message"]["text"] = ours["message"]
            if "id" in entry["message"]:
                entry["message"].pop("text", None)
            entry.get("partialFingerprints", {}).pop("signalbox/v1", None)
            if not entry.get("partialFingerprints", True):
                del entry["partialFingerprints"]
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
            assert entry.raw["message"]["text"].startswith(f"[{outcome.verdict}] ")
            assert entry.raw["partialFingerprints"]["signalbox/v1"] == outcome.fingerprint
            assert properties["justification"] == outcome.justification == f"Because of {entry.fingerprint}."
            assert properties["evidence"][0]["firstLine"] == 1
            ours = [s for s in entry.raw.get("suppressions", []) if "signalbox" in s.get("properties", {})]
            assert bool(ours) == (outcome.verdict is Verdict.FALSE_POSITIVE)
    assert judged == len(outcomes)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (("A", "B", "C"), [f'New issue "{rule} [{verdict}] ' for rule, verdict in zip("ABC", VERDICTS, strict=True)]),
        # Of a rule the tool shows what all its results begin with.
        (("A", "A", "A"), ['New issue "A [ ..." (3 occurrences)', "app.py:1", "app.py:2", "app.py:3"]),
    ],
)
def test_what_compares_logs_tells_a_judged_one_by_its_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: Sequence[str], told: Sequence[str]
) -> None:
    log = log_of(*(result(line, rule=rule) for line, rule in enumerate(rules, start=1)))
    before, after = tmp_path / "before.sarif", tmp_path / "after.sarif"
    before.write_text(write_json(log), encoding="utf-8")
    after.write_text(write_json(annotate(log, outcomes_of(log), ANYWHERE)), encoding="utf-8")

    def difference(other: Path) -> str:
        """What `sarif diff` prints."""
        print_diff(load_sarif_files(str(before)), load_sarif_files(str(other)), None)
        return capsys.readouterr().out

    assert "all levels: +0 +0" in difference(before)
    assert [each for each in told if each not in difference(after)] == []


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


@pytest.mark.parametrize(("accept", "status"), [(False, "underReview"), (True, "accepted")])
def test_suppressions_are_under_review_unless_they_are_accepted(accept: bool, status: str) -> None:
    log = log_of(result(1))
    (entry,) = read_results(log, ANYWHERE)
    outcome = Outcome(entry.fingerprint, Verdict.FALSE_POSITIVE, 0.9, "So.")
    annotated = annotate(log, [outcome], ANYWHERE, accept=accept)
    assert [one["status"] for one in annotated["runs"][0]["results"][0]["suppressions"]] == [status]
    assert violations(annotated) == []


def test_what_no_language_model_decided_says_so_and_is_never_accepted() -> None:
    log = log_of(result(1))
    (entry,) = read_results(log, ANYWHERE)
    by_rules = Outcome(entry.fingerprint, Verdict.FALSE_POSITIVE, None, "So.", decided_by=OFFLINE_RULES)
    annotated = annotate(log, [by_rules], ANYWHERE, accept=True)
    [run] = annotated["runs"]
    assert run["results"][0]["suppressions"][0]["status"] == "underReview"
    assert run["results"][0]["properties"]["signalbox"]["decidedBy"] == OFFLINE_RULES
    assert "confidence" not in run["results"][0]["properties"]["signalbox"]
    assert [one["shortDescription"]["text"] for one in run["tool"]["extensions"]] == [OFFLINE_RULES]
    assert violations(annotated) == []
    assert annotate(annotated, [by_rules], ANYWHERE, accept=True) == annotated
    by_model = annotate(annotated, [replace(by_rules, decided_by="")], ANYWHERE)
    assert OFFLINE_RULES not in json.dumps(by_model)


def test_a_result_that_breaks_the_schema_is_matched_again() -> None:
    log = log_of(result(1), {"ruleId": "X"}, "text", {"message": {"text": "m"}, "properties": []})
    outcomes = [Outcome(entry.fingerprint, Verdict.NEEDS_REVIEW, 0.0, "") for entry in read_results(log, ANYWHERE)]
    once = annotate(log, outcomes, ANYWHERE)
    assert [entry.fingerprint for entry in read_results(once, ANYWHERE)] == [one.fingerprint for one in outcomes]
    assert annotate(once, outcomes, ANYWHERE) == once


def test_twins_keep_their_names_though_one_breaks_the_schema() -> None:
    twin = result(1)
    log = log_of({**twin, "properties": {}}, {**twin, "properties": 2**63}, {**twin, "properties": {}})
    names = [entry.fingerprint for entry in read_results(log, ANYWHERE)]
    judged = annotate(log, [Outcome(name, Verdict.NEEDS_REVIEW, 0.0, "") for name in names], ANYWHERE)
    assert [entry.fingerprint for entry in read_results(judged, ANYWHERE)] == names
