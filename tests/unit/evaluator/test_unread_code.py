"""Code that nobody can tell from comments is no evidence, and no verdict stands on it."""

from __future__ import annotations

import pytest
from signalbox.v1 import code_reading_pb2

from services.evaluator.bank import CodeBank, Fragment
from services.evaluator.checks import check_draft
from services.evaluator.citations import MAX_COMPARED_CHARACTERS, Reason
from services.evaluator.connections import Span
from services.evaluator.prompt import case_document
from services.kit.models.prompts import read_data
from tests.unit.evaluator.cases import COMMIT, bank, draft, evidence, finding, fragment

UNKNOWN = "a.unheardof"
LINE = "run(x)  # approved"


def by_an_earlier_release(file: str, text: str) -> Fragment:
    """A fragment as runtimes sent it that did not know what of it is code."""
    lines = tuple(text.removesuffix("\n").split("\n"))
    return Fragment(file, 1, COMMIT, lines, len(lines), None)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (fragment(UNKNOWN, f"{LINE}\n" * 8), "no grammar"),
        (by_an_earlier_release(UNKNOWN, f"{LINE}\n" * 8), "fetch them again"),
    ],
)
def test_no_verdict_stands_on_what_is_unread(given: Fragment, why: str) -> None:
    cited = evidence(1, file=UNKNOWN, quote="run(x)")
    problems = check_draft(draft(cited), finding(Span(UNKNOWN, 1, 1)), bank(given))
    assert [problem.reason for problem in problems] == [Reason.UNREAD, Reason.FLAGGED_NOT_CITED]
    assert why in problems[0].message


@pytest.mark.parametrize(("file", "text"), [(UNKNOWN, LINE), ("a.py", "x = run('open)")])
def test_a_verdict_needs_flagged_code_that_nobody_can_read(file: str, text: str) -> None:
    given = bank(fragment(file, f"{text}\n"), fragment("app.py", "use(x)\n"))
    flagged = finding(Span(file, 1, 1), related=(Span("app.py", 1, 1),))
    problems = check_draft(draft(evidence(1, quote="use(x)")), flagged, given)
    assert [problem.reason for problem in problems] == [Reason.FLAGGED_NOT_CITED]


def test_what_does_not_parse_is_no_evidence_and_is_shown() -> None:
    given = bank(fragment("app.py", "use(x)\nx = run('open)\n"))
    problems = check_draft(draft(evidence(2, quote="x = run('open)")), finding(Span("app.py", 1, 1)), given)
    assert [problem.reason for problem in problems] == [Reason.COMMENT_ONLY, Reason.FLAGGED_NOT_CITED]
    document = read_data(case_document(finding(Span("app.py", 1, 1)), draft(), given, code_characters=5000))
    assert document["code_bank"] == [{"file": "app.py", "code": ["1 | use(x)", "2 | x = run('open)"]}]


def test_what_was_read_again_is_read() -> None:
    text = "use(x)\n"
    for pieces in ([by_an_earlier_release("app.py", text), fragment("app.py", text)],) * 2:
        given = CodeBank(pieces, COMMIT)
        assert not check_draft(draft(evidence(1, quote="use(x)")), finding(Span("app.py", 1, 1)), given)
        pieces.reverse()


def test_the_model_is_told_how_much_it_is_not_shown() -> None:
    given = bank(fragment("app.py", "use(x)\n"), fragment(UNKNOWN, f"{LINE}\n" * 8))
    document = read_data(case_document(finding(Span("app.py", 1, 1)), draft(), given, code_characters=5000))
    assert document["code_bank"] == [{"file": "app.py", "code": ["1 | use(x)"]}]
    assert document["lines_left_out"] == 8


def test_a_piece_from_the_middle_of_a_docstring_is_a_docstring() -> None:
    reading = code_reading_pb2.CodeReading(
        lines=[
            code_reading_pb2.LineReading(
                parts=[code_reading_pb2.LinePart(kind=code_reading_pb2.LINE_PART_KIND_COMMENT, characters=17)]
            )
        ]
    )
    given = bank(fragment("app.py", "return escape(x)!\n", 5, reading=reading, total_lines=9))
    problems = check_draft(draft(evidence(5, quote="return escape(x)")), finding(Span("app.py", 5, 5)), given)
    assert [problem.reason for problem in problems] == [Reason.COMMENT_ONLY]


def test_a_quote_is_looked_for_in_so_many_places() -> None:
    places = MAX_COMPARED_CHARACTERS // 2
    for count, reasons in ((places - 1, []), (places, [Reason.COMMENT_ONLY, Reason.FLAGGED_NOT_CITED])):
        given = bank(fragment("app.py", f"# {'aa ' * count}\naa\n"))
        problems = check_draft(draft(evidence(1, 2, quote="aa")), finding(Span("app.py", 2, 2)), given)
        assert [problem.reason for problem in problems] == reasons
