"""What the demo takes for a good end of an investigation, and what it complains about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from signalbox.v1 import sast_pb2

from services.cli.demo_findings import SCENE, FindingsScene, check_findings
from services.findings.investigation.scores import score
from services.findings.investigation.summary import Judged, Summary
from services.findings.investigation.truth import Truth
from services.findings.sarif.outcome import Outcome, Source, Verdict

TRUE, FALSE, REVIEW = Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE, Verdict.NEEDS_REVIEW
SMALL = FindingsScene("Four findings", Path("t"), Path("k"), "a.py:2", 4, 1, precision=1.0, recall=1.0, decided=0.5)


def summary(*verdicts: Verdict, labels: tuple[bool, ...] = (True, True, False, False)) -> Summary:
    """Findings on lines 1, 2, 3 and so on; the last is a known false positive."""
    judged = []
    for number, verdict in enumerate(verdicts, start=1):
        finding = sast_pb2.Finding(
            fingerprint=str(number), location=sast_pb2.CodeLocation(file="a.py", first_line=number)
        )
        source = Source.KNOWN if number == len(verdicts) else Source.RUN
        judged.append(Judged(finding, Outcome(str(number), verdict, 0.9, "because", source=source)))
    truth = Truth({str(number): label for number, label in enumerate(labels, start=1)}, ())
    return Summary("r", "c", tuple(judged), {}, score([each.outcome for each in judged], truth))


def test_right_verdicts_leave_nothing_to_say() -> None:
    assert check_findings(SMALL, summary(TRUE, TRUE, FALSE, FALSE)) == []
    assert check_findings(SMALL, summary(TRUE, REVIEW, FALSE, FALSE)) == []


def test_a_wrong_verdict_costs_precision_or_recall() -> None:
    assert check_findings(SMALL, summary(TRUE, TRUE, TRUE, FALSE)) == ["precision 0.67 is under 1.00"]
    assert check_findings(SMALL, summary(FALSE, TRUE, FALSE, FALSE)) == ["recall 0.50 is under 1.00"]


def test_a_weakness_below_the_comment_must_not_be_let_off() -> None:
    assert "a.py:2, below the comment, was let off" in check_findings(SMALL, summary(TRUE, FALSE, FALSE, FALSE))
    elsewhere = replace(SMALL, hostile="b.py:1")
    assert check_findings(elsewhere, summary(TRUE, TRUE, FALSE, FALSE)) == ["b.py:1, below the comment, was let off"]


def test_too_many_open_questions_are_no_result() -> None:
    problems = check_findings(SMALL, summary(REVIEW, REVIEW, REVIEW, FALSE))
    assert problems[0] == "only 1 of 4 findings were decided"
    assert "precision n/a is under 1.00" in problems


def test_findings_that_come_or_go_are_told() -> None:
    problems = check_findings(SMALL, summary(TRUE, TRUE, FALSE))
    assert "3 findings, 1 of them known, not 4 and 1" in problems
    unlabelled = check_findings(SMALL, summary(TRUE, TRUE, FALSE, FALSE, labels=(True, True, False)))
    assert unlabelled == ["the ground truth does not match the findings one to one"]


def test_a_failed_run_is_told() -> None:
    good = summary(TRUE, TRUE, FALSE, FALSE)
    first = replace(good.judged[0], outcome=replace(good.judged[0].outcome, error="no model"))
    problems = check_findings(SMALL, replace(good, judged=(first, *good.judged[1:])))
    assert problems == ["the run on a.py:1 failed: no model"]


def test_the_scene_names_files_that_are_there() -> None:
    assert SCENE.truth.is_file()
    assert SCENE.known.is_file()
