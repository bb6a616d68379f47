"""Code that takes too long to tell from comments is no evidence, and no verdict stands on it."""

from __future__ import annotations

import pytest
from pygments.lexer import Lexer

from services.evaluator.bank import CodeBank
from services.evaluator.checks import check_draft
from services.evaluator.citations import MAX_COMPARED_CHARACTERS, Reason
from services.evaluator.code_lines import MAX_CHARACTERS, MAX_WORK, read_region
from services.evaluator.connections import Span
from services.evaluator.prompt import case_document
from services.kit.lexing import QuickTexts, Token
from services.kit.models.prompts import read_data
from tests.unit.evaluator.cases import COMMIT, bank, draft, evidence, finding, fragment

WORDS = ("a " * 1000)[:998] + "x"
# Each is quadratic work, or more, for the lexer of its language.
SLOW = [
    ("A.java", WORDS),
    ("a.aj", WORDS),
    ("a.au3", " " * 999),
    ("a.ahk", "\t" * 999),
    ("a.cs", WORDS),
    ("a.c", ";" * 999),
]


class Recorder(QuickTexts):
    """Lexes, and knows of what."""

    def __init__(self, most: int = MAX_WORK) -> None:
        self.texts: list[str] = []
        self.most = most

    def lex(self, lexer: type[Lexer], text: str, work: int) -> tuple[list[Token] | None, int]:
        self.texts.append(text)
        return (None, work) if len(text) > self.most else super().lex(lexer, text, work)


@pytest.mark.parametrize(("path", "line"), SLOW)
def test_a_slow_file_is_unread(path: str, line: str) -> None:
    lines = read_region(path, [line] * 8, anchored=True)
    assert all(each.unread and not each.carries and not each.code.strip() and not each.names for each in lines)
    assert [each.text for each in lines] == [line] * 8


@pytest.mark.parametrize(("path", "line"), SLOW[:2])
def test_no_verdict_stands_on_a_slow_file(path: str, line: str) -> None:
    given = bank(fragment(path, f"{line}\n" * 8))
    problems = check_draft(draft(evidence(1, file=path, quote=line[:200])), finding(Span(path, 1, 1)), given)
    assert [problem.reason for problem in problems] == [Reason.COMMENT_ONLY, Reason.FLAGGED_NOT_CITED]


def test_a_verdict_needs_flagged_code_that_nobody_can_read() -> None:
    given = bank(fragment("A.java", f"{WORDS}\n" * 8), fragment("app.py", "use(x)\n"))
    flagged = finding(Span("A.java", 1, 1), related=(Span("app.py", 1, 1),))
    problems = check_draft(draft(evidence(1, quote="use(x)")), flagged, given)
    assert [problem.reason for problem in problems] == [Reason.FLAGGED_NOT_CITED]


def test_a_slow_file_takes_nothing_from_the_others() -> None:
    given = bank(fragment("app.py", "use(x)\n"), fragment("A.java", f"{WORDS}\n" * 8))
    slow = evidence(1, file="A.java", quote=WORDS[:200])
    problems = check_draft(draft(slow, evidence(1, quote="use(x)")), finding(Span("app.py", 1, 1)), given)
    assert [(problem.index, problem.reason) for problem in problems] == [(0, Reason.COMMENT_ONLY)]


def test_all_files_of_a_draft_share_what_they_may_take() -> None:
    recorder = Recorder()
    files = [fragment(f"{number}.py", "use(x)\n" * 5000) for number in range(20)]
    given = CodeBank(files, COMMIT, recorder)
    flagged = finding(Span("19.py", 1, 1))
    claims = [evidence(1, file=f"{number}.py", quote="use(x)") for number in range(20)]
    reasons = {problem.index: problem.reason for problem in check_draft(draft(*claims), flagged, given)}
    assert sum(map(len, recorder.texts)) <= MAX_CHARACTERS
    # The flagged file is read first, whatever the claims name.
    assert reasons.get(19) is None
    assert [index for index in range(19) if reasons.get(index) is Reason.COMMENT_ONLY] == list(range(4, 19))


def test_a_text_that_was_too_much_leaves_less_for_the_rest() -> None:
    recorder = Recorder(most=100)
    files = [fragment(f"{number}.py", "use(x)\n" * 50) for number in range(5)]
    given = CodeBank(files, COMMIT, recorder)
    assert all(line.unread for file in given.files for line in file.lines.values())
    assert len(recorder.texts) == 1


def test_the_model_is_told_how_much_it_is_not_shown() -> None:
    given = bank(fragment("app.py", "use(x)\n"), fragment("A.java", f"/* approved */ {WORDS}\n" * 8))
    document = read_data(case_document(finding(Span("app.py", 1, 1)), draft(), given, code_characters=5000))
    assert document["code_bank"] == [{"file": "app.py", "code": ["1 | use(x)"]}]
    assert document["lines_left_out"] == 8


def test_a_comment_on_a_long_line_is_a_comment_to_its_end() -> None:
    long, after = read_region("a.py", ["f(x)  # " + " " * 1000 + "return escape(x)", "g(x)"], anchored=True)
    assert long.code.split() == long.certain.split() == ["f(x)"]
    assert after.carries


def test_a_string_that_opens_far_out_on_a_line_goes_on_in_the_next() -> None:
    _, within, after = read_region("a.py", [f"x = '{'a' * 1000}' + '''", "return escape(x)", "'''"], anchored=True)
    assert not within.structure.strip()
    assert not after.structure.strip()


def test_a_quote_is_looked_for_in_so_many_places() -> None:
    places = MAX_COMPARED_CHARACTERS // 2
    for count, reasons in ((places - 1, []), (places, [Reason.COMMENT_ONLY, Reason.FLAGGED_NOT_CITED])):
        given = bank(fragment("app.py", f"# {'aa ' * count}\naa\n"))
        problems = check_draft(draft(evidence(1, 2, quote="aa")), finding(Span("app.py", 2, 2)), given)
        assert [problem.reason for problem in problems] == reasons
