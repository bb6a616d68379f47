"""Ground truth is matched with care, and NEEDS_REVIEW is never counted as positive."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signalbox.v1 import sast_pb2

from services.findings.errors import BadFile
from services.findings.investigation.scores import score
from services.findings.investigation.truth import Truth, match_truth, read_truth
from services.findings.sarif.outcome import Outcome, Verdict


def finding(fingerprint: str, line: int = 1, last_line: int = 0) -> sast_pb2.Finding:
    location = sast_pb2.CodeLocation(file="a.py", first_line=line, last_line=last_line)
    return sast_pb2.Finding(fingerprint=fingerprint, rule_id="R1", location=location)


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


BY_PLACE = """rule,file,line,is_vulnerable,by
R1,a.py,1,True,me
R1,a.py,2,False,me
R1,a.py,4,1,
R1,b.py,1,0,
"""
IN_YAML = """
- {fingerprint: f1, is_vulnerable: true}
- {rule: R1, file: a.py, line: 2, is_vulnerable: false}
- {rule: R1, file: a.py, line: 3, is_vulnerable: true}
- {fingerprint: f9, is_vulnerable: true}
"""
FILES: list[tuple[str, str]] = [
    ("truth.csv", "fingerprint,is_vulnerable\nf1,true\nf2,0\nf3,yes\nf9,no\n"),
    ("truth.csv", "fingerprint, is_vulnerable\r\nf1, true\r\n\r\nf2, 0\r\nf3, yes\r\nf9, no\r\n"),
    ("truth.csv", BY_PLACE),
    ("truth.yaml", IN_YAML),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    entries = read_truth(write(tmp_path, name, text))
    truth = match_truth(entries, [finding("f1", 1), finding("f2", 2), finding("f3", 3, 5), finding("f4", 7)])
    assert truth.labels == {"f1": True, "f2": False, "f3": True}
    assert len(truth.unmatched) == 1


def test_a_decision_about_a_result_is_true_of_each_of_its_places(tmp_path: Path) -> None:
    decisions = (
        "- {fingerprint: r1, is_vulnerable: false, reason: constant}\n"
        "- {fingerprint: r1-3, is_vulnerable: true, reason: not this}"
    )
    findings = [finding("r1", 1), finding("r1-2", 2), finding("r1-3", 3), finding("r2", 4), finding("r2-2", 5)]
    results = {each.fingerprint: each.fingerprint.partition("-")[0] for each in findings}
    truth = match_truth(read_truth(write(tmp_path, "decisions.yaml", decisions)), findings, results)
    assert (truth.labels, truth.unmatched) == ({"r1": False, "r1-2": False, "r1-3": True}, ())


BAD: list[tuple[str, str]] = [
    ("truth.csv", "fingerprint,is_vulnerable\nf1,maybe\n"),
    ("truth.csv", "fingerprint,is_vulnerable\nf1,\n"),
    ("truth.csv", "rule,file,is_vulnerable\nR1,a.py,true\n"),
    ("truth.csv", "rule,file,line,is_vulnerable\nR1,a.py,x,true\n"),
    ("truth.csv", "fingerprint,is_vulnerable\n" + "f" * 200_000 + ",true\n"),
    ("truth.yml", "fingerprint: f1"),
    ("truth.yml", "- 3"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_bad_files(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(BadFile, match="truth"):
        read_truth(write(tmp_path, name, text))


def test_contradiction(tmp_path: Path) -> None:
    path = write(tmp_path, "truth.csv", "fingerprint,is_vulnerable\nf1,true\nf1,false\n")
    with pytest.raises(BadFile, match="contradicts itself about f1"):
        match_truth(read_truth(path), [finding("f1")])


def outcomes(*verdicts: tuple[Verdict, float | None]) -> list[Outcome]:
    return [Outcome(f"f{number}", verdict, sure, "") for number, (verdict, sure) in enumerate(verdicts)]


TP, FP, NR = Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE, Verdict.NEEDS_REVIEW


def test_matrix() -> None:
    given_verdicts = outcomes((TP, 0.9), (TP, 0.9), (TP, 0.5), (FP, 1.0), (FP, 0.5), (NR, 0.9), (NR, 0.1), (TP, 1.0))
    labels = {"f0": True, "f1": True, "f2": False, "f3": False, "f4": True, "f5": True, "f6": False}
    scores = score(given_verdicts, Truth(labels, ("f9",)))
    assert (scores.true_positives, scores.false_positives) == (2, 1)
    assert (scores.true_negatives, scores.false_negatives) == (1, 1)
    assert (scores.review_vulnerable, scores.review_harmless, scores.unlabelled) == (1, 1, 1)
    assert scores.precision == scores.recall == scores.f1 == pytest.approx(2 / 3)
    assert scores.recall_with_review == 0.5
    assert [(bin_.low, bin_.count, bin_.accuracy) for bin_ in scores.bins] == [(0.5, 2, 0.0), (0.9, 3, 1.0)]
    assert scores.calibration_error == pytest.approx((2 * 0.5 + 3 * (1 - 2.8 / 3)) / 5)


def test_a_verdict_without_confidence_is_right_or_wrong_and_nothing_else() -> None:
    labels = {"f0": True, "f1": True, "f2": False}
    some = score(outcomes((TP, 0.9), (TP, None), (TP, None)), Truth(labels, ()))
    assert (some.true_positives, some.false_positives) == (2, 1)
    assert some.calibration_error == pytest.approx(0.1)
    none = score(outcomes((TP, None), (FP, None), (TP, None)), Truth(labels, ()))
    assert (none.decided, none.bins, none.calibration_error) == (3, (), None)


def test_nothing_to_divide_by() -> None:
    scores = score(outcomes((NR, 0.5)), Truth({"f0": False}, ()))
    assert (scores.precision, scores.recall, scores.f1, scores.calibration_error) == (None, None, None, None)
    assert score([], Truth({}, ())).recall_with_review is None


VERDICTS = st.lists(st.tuples(st.sampled_from(list(Verdict)), st.floats(0, 1), st.one_of(st.none(), st.booleans())))


@given(VERDICTS)
def test_every_finding_is_counted_once(drawn: list[tuple[Verdict, float, bool | None]]) -> None:
    labels = {f"f{number}": label for number, (_, _, label) in enumerate(drawn) if label is not None}
    scores = score(outcomes(*((verdict, sure) for verdict, sure, _ in drawn)), Truth(labels, ()))
    assert scores.decided + scores.review_vulnerable + scores.review_harmless + scores.unlabelled == len(drawn)
    assert sum(bin_.count for bin_ in scores.bins) == scores.decided
    called = sum(verdict is TP and label is not None for verdict, _, label in drawn)
    assert scores.true_positives + scores.false_positives == called
