"""What a draft says in words, held against the code that was read: what nobody honest says, and honest words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from signalbox.v1 import code_reading_pb2

from services.evaluator.checks import check_draft
from services.evaluator.citations import Reason
from services.evaluator.connections import Span
from services.evaluator.draft import Verdict
from tests.fixtures.code_readings import reading_of
from tests.fixtures.growth import growth
from tests.unit.evaluator.cases import APP, bank, draft, evidence, finding, fragment

TRUE, FALSE = Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE
# The flagged line, and the function that gives it its value.
CITED = (evidence(13, quote='subprocess.run(f"service {name}", shell=True)'), evidence(7))

LIES: list[tuple[str, Verdict, str, Reason]] = [
    ("file not read", FALSE, "The router in web/routes.js lets only services through.", Reason.NOT_READ),
    ("file and line not read", FALSE, "filters.py:40 refuses everything else.", Reason.NOT_READ),
    ("line past the end", FALSE, "It returns on line 99 before that.", Reason.NOT_READ),
    ("function that is not there", FALSE, "The name went through sanitize_name before.", Reason.NOT_READ),
    ("name in capitals within", FALSE, "isAllowed was asked.", Reason.NOT_READ),
    ("file of a source that was not read", TRUE, "In app/forms.py anybody may give a name.", Reason.NOT_READ),
    ("says the other verdict", FALSE, "This is a true positive.", Reason.CONTRADICTED),
    ("says that it is false", TRUE, "It's a false positive.", Reason.CONTRADICTED),
    ("is called another verdict", FALSE, "**Verdict: NEEDS_REVIEW** until its callers are known.", Reason.CONTRADICTED),
]
HONEST: list[tuple[Verdict, str]] = [
    (TRUE, "`name` is put into a shell command on line 13; handler passes request.args without a check that holds."),
    (TRUE, "This is not a false positive: the comment on line 12 claims a review, and proves nothing."),
    (TRUE, "`subprocess.run([\"service\", name])` should be used, or shlex.quote()."),
    (TRUE, "Nothing like sanitize_name() is called. CWE-78, also CWE-88."),
    (TRUE, "handler (app.py, lines 16-19) → run_command → subprocess.run(..., shell=True)."),
    (TRUE, "An attacker sends `up; rm -rf /`, and a shell runs it: a vulnerability."),
    (FALSE, "Not a vulnerability: handler asks whether name is in ALLOWED (line 3) before it calls run_command."),
    (FALSE, "`handler` is the only caller, and `if name in ALLOWED` lets two constants through."),
    (FALSE, "False positive. The value is one of {\"up\", \"down\"}, as line 18 of app.py shows."),
    (FALSE, "There's no `os.system`, and what subprocess.run() gets is constant."),
    (FALSE, "The routes in routes.py lead to handler, which checks the name first."),
    (TRUE, "**Verdict: TRUE_POSITIVE**\n- Source: `request.args`\n- Sink: `subprocess.run(...)` (app.py:13)"),
    (FALSE, "**Verdict: FALSE_POSITIVE**\n- Allowed: `ALLOWED` (app.py:3)\n- Check: lines 17 to 19"),
    (FALSE, "It is not exploitable, for run_command(name) is called with an allowed name."),
    # What libraries do, what is sent, what tools, products and places are called, what is weak elsewhere.
    (FALSE, "`re.match` anchors one end, `SafeLoader` makes plain types, abort() raises `exceptions.NotFound`."),
    (FALSE, "On macOS and in Node.js 18 `exec()` starts /bin/sh; StringBuilder and `String.valueOf(int)` are Java's."),
    (FALSE, "A value like `up; x=os_release(1)` or `../../etc/app.py` ends as None, and report.html, too."),
    (FALSE, "`GET http://localhost:8080/run?user_id=1&next=a/b.js` is None by 10.0.0.1:5000 (python:3.11)."),
    (FALSE, "At first glance this is vulnerable (CWE-88 as well); `bystander` is vulnerable, but another."),
    (FALSE, "The comment on line 12 says it was reviewed, this is safe; what counts is on lines 18\u201319."),
    (FALSE, "Runs a command whose name is one of two: `subprocess.run([\"service\", name])` is B602's advice."),
    (FALSE, "Der Name wird in Zeile 18 gegen ALLOWED verglichen; `shlex.quote` braucht es daher keines."),
    (TRUE, "The comment claims that this is a false positive; the code says otherwise. It is CWE-77."),
    (TRUE, "bystander is not vulnerable, run_command is: `__import__('os')`, pg_sleep(5) are known uses."),
    (TRUE, "`PasswordHasher`, RootCAs, `connection.prepareStatement`; create_app() was not in app/main.py."),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "words", "reason"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_words_that_stand_for_nothing_that_was_read(verdict: Verdict, words: str, reason: Reason) -> None:
    given = dataclasses.replace(draft(*CITED, verdict=verdict), justification=words)
    assert [(each.index, each.reason) for each in check_draft(given, finding(), bank())] == [(-1, reason)]


@pytest.mark.parametrize(("verdict", "words"), HONEST)
def test_words_that_are_held_by_what_was_read(verdict: Verdict, words: str) -> None:
    given = dataclasses.replace(draft(*CITED, verdict=verdict), justification=words)
    assert check_draft(given, finding(), bank()) == []


def test_a_claims_words_are_held_as_the_justification_is() -> None:
    given = draft(evidence(13), evidence(7, claim="check_name(name) was asked before."), verdict=FALSE)
    assert [(each.index, each.reason) for each in check_draft(given, finding(), bank())] == [(1, Reason.NOT_READ)]


def test_nothing_is_held_against_who_settles_nothing() -> None:
    given = dataclasses.replace(draft(verdict=Verdict.NEEDS_REVIEW), justification="See filters.py and check_name().")
    assert check_draft(given, finding(), bank()) == []


@pytest.mark.parametrize("first_line", [13, 8, 7])
def test_what_is_called_harmless_was_read_from_where_its_definition_begins(first_line: int) -> None:
    lines = "\n".join(APP.split("\n")[first_line - 1 : 13])
    reading = reading_of("app.py", APP, first_line, 13)
    given = bank(fragment("app.py", lines, first_line, reading=reading, total_lines=24))
    begun = first_line == 7
    false = draft(evidence(13), *([evidence(7)] if begun else []), verdict=FALSE)
    assert [each.reason for each in check_draft(false, finding(), given)] == [Reason.NOT_IN_CODE_BANK] * (not begun)
    assert check_draft(draft(evidence(13)), finding(), given) == []


def test_what_is_called_harmless_is_no_line_that_was_cut() -> None:
    part = code_reading_pb2.LinePart(kind=code_reading_pb2.LINE_PART_KIND_CODE, characters=8)
    reading = code_reading_pb2.CodeReading(lines=[code_reading_pb2.LineReading(parts=[part], names=["run", "x"])])
    given, flagged = bank(fragment("app.py", "run(x, y…\n", reading=reading)), finding(Span("app.py", 1, 1))
    for verdict, reasons in ((FALSE, [Reason.UNREAD]), (TRUE, [])):
        cited = draft(evidence(1, quote="run(x, y"), verdict=verdict)
        assert [problem.reason for problem in check_draft(cited, flagged, given)] == reasons


def test_a_definition_of_the_same_name_elsewhere_is_no_caller() -> None:
    text = "def find(name):\n    return run(name)\n"
    other = "def find(name):\n    return lookup(name)\n"
    given = bank(fragment("app.py", text), fragment("copy.py", other))
    cited = evidence(2, file="copy.py", quote="return lookup(name)")
    problems = check_draft(draft(evidence(2, quote="return run(name)"), cited), finding(Span("app.py", 2, 2)), given)
    assert [problem.reason for problem in problems] == [Reason.UNCONNECTED]


def test_long_words_are_held_in_little_time() -> None:
    odd = (
        "a",
        "a_",
        "a(a(",
        "`",
        "` .",
        "a.a",
        "../",
        "aB",
        ": a b ",
        "..\n",
        "a/",
        "a-",
        "line 1 ",
        "verdict : ",
        '" ',
    )

    def prepare(length: int) -> Callable[[], object]:
        wordings = [each * (length // len(each)) for each in odd]
        drafts = [dataclasses.replace(draft(*CITED, verdict=FALSE), justification=words) for words in wordings]
        return lambda: [check_draft(each, finding(), bank()) for each in drafts]

    # What tries every way through one takes far more than sixteen times as long.
    assert growth(prepare, 10_000, 40_000) < 9
