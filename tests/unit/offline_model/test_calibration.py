"""Verdicts on programs that were put together at random, whose truth is found by running them."""

from __future__ import annotations

from tests.bench.bench_verdicts import MOST, measure
from tests.bench.labelled_findings import WEAKNESSES, labelled_findings


def test_verdicts_are_as_sure_as_they_are_right() -> None:
    measured = measure(440, seed=7)
    assert measured.scores.calibration_error is not None
    assert measured.scores.calibration_error <= MOST
    assert measured.scores.decided >= 300
    assert not [finding.code for finding, _ in measured.wrong if finding.vulnerable]


def test_the_flagged_line_is_in_the_program_and_says_what_is_flagged() -> None:
    for finding in labelled_findings(200, 3):
        lines = finding.code.rstrip("\n").split("\n")
        flagged = lines[finding.line - 1]
        assert "(" in flagged or finding.cwe == "CWE-798"
        assert finding.line == len(lines) or finding.cwe in ("CWE-327", "CWE-330", "CWE-798")


def test_the_findings_are_of_both_kinds_in_every_weakness_and_the_same_for_a_seed() -> None:
    found = list(labelled_findings(440, 3))
    assert found == list(labelled_findings(440, 3))
    assert len(WEAKNESSES) >= 9
    for weakness in WEAKNESSES:
        of_weakness = [finding.vulnerable for finding in found if finding.cwe == weakness]
        assert len(of_weakness) == 440 // len(WEAKNESSES)
        assert set(of_weakness) == {True, False}, weakness
