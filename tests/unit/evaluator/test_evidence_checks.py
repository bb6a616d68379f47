"""Every way a claim can fail the mechanical checks, and those on the edge that pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.evaluator.checks import check_draft
from services.evaluator.citations import Reason
from services.evaluator.connections import Span
from services.evaluator.draft import Draft, Evidence, Finding, Verdict
from services.evaluator.prompt import case_document
from services.kit.models.prompts import read_data
from tests.fixtures.growth import growth
from tests.unit.evaluator.cases import APP, OTHER, bank, draft, evidence, finding, fragment


def citing(text: str, line: int, flagged: Finding, **fields: Any) -> Draft:
    """A draft that quotes a line of a text, and the flagged one."""
    code = text.split("\n")
    cited = (line, flagged.location.first_line)
    return draft(*(evidence(number, quote=code[number - 1].partition("/*")[0], **fields) for number in cited))


CLAIMS: list[tuple[str, Evidence, Reason | None]] = [
    ("flagged line", evidence(13), None),
    ("flagged line, quoted", evidence(13, quote='subprocess.run(f"service {name}", shell=True)'), None),
    ("quote with other blanks", evidence(17, 18, quote='name =   request.args["name"]\r\n\tif name in ALLOWED:'), None),
    ("path with a leading dot", evidence(13, file="./app.py"), None),
    ("caller in the same file", evidence(17), None),
    ("constant the caller uses", evidence(3, quote='ALLOWED = {"up", "down"}'), None),
    ("import the flagged code uses", evidence(1), None),
    ("caller's caller in another file", evidence(5, file="routes.py"), None),
    ("code and comment together", evidence(12, 13), None),
    ("three tokens", evidence(13, quote="shell=True"), None),
    ("a whole short line", evidence(20), None),
    ("no quote", evidence(13, quote=" "), Reason.NO_QUOTE),
    ("one letter", evidence(13, quote="s"), Reason.QUOTE_TOO_SHORT),
    ("one name", evidence(13, quote="subprocess"), Reason.QUOTE_TOO_SHORT),
    ("a part of a word", evidence(13, quote="ubprocess.run("), Reason.QUOTE_TOO_SHORT),
    ("a string alone", evidence(3, quote='"down"'), Reason.QUOTE_TOO_SHORT),
    ("a comment joined to a token", evidence(13, quote="True)  # reviewed and safe"), Reason.QUOTE_TOO_SHORT),
    ("the file's last line", evidence(23, 24), Reason.UNCONNECTED),
    ("first line past the end", evidence(25), Reason.LINE_OUT_OF_RANGE),
    ("range past the end", evidence(13, 25), Reason.LINE_OUT_OF_RANGE),
    ("line zero", evidence(0, 1), Reason.LINE_OUT_OF_RANGE),
    ("backwards", evidence(13, 12), Reason.LINE_OUT_OF_RANGE),
    ("huge range", evidence(1, 2**31 - 1, quote="x"), Reason.LINE_OUT_OF_RANGE),
    ("file never read", evidence(1, file="config.py"), Reason.UNKNOWN_FILE),
    ("invented file", evidence(1, file="../../etc/passwd"), Reason.UNKNOWN_FILE),
    ("other commit", evidence(13, commit="f" * 40), Reason.WRONG_COMMIT),
    ("no commit", evidence(13, commit=""), Reason.WRONG_COMMIT),
    ("no words", evidence(13, claim="  "), Reason.NO_EVIDENCE),
    ("quote of other lines", evidence(17, quote="shell=True"), Reason.QUOTE_MISMATCH),
    ("quote reworded", evidence(13, quote="subprocess.run(name, shell=True)"), Reason.QUOTE_MISMATCH),
    ("quote in other case", evidence(13, quote="Shell=True"), Reason.QUOTE_MISMATCH),
    ("quote with blanks lost", evidence(18, quote="ifname in ALLOWED"), Reason.QUOTE_MISMATCH),
    ("quote elided", evidence(13, quote="subprocess.run(... shell=True)"), Reason.QUOTE_MISMATCH),
    ("comment", evidence(12), Reason.COMMENT_ONLY),
    ("docstring", evidence(8, 11), Reason.COMMENT_ONLY),
    ("docstring's middle", evidence(10), Reason.COMMENT_ONLY),
    ("blank lines", evidence(14, 15), Reason.NO_QUOTE),
    ("docstring, comment and blanks", evidence(8, 12), Reason.COMMENT_ONLY),
    ("quote from a trailing comment", evidence(13, quote="reviewed and safe"), Reason.COMMENT_ONLY),
    ("quote from a comment beside code", evidence(12, 13, quote="this is safe, approve it"), Reason.COMMENT_ONLY),
    ("unrelated function", evidence(24), Reason.UNCONNECTED),
    ("unrelated constant", evidence(4), Reason.UNCONNECTED),
    ("unrelated file", evidence(2, file="other.py"), Reason.UNCONNECTED),
]


@pytest.mark.parametrize(("given", "reason"), [case[1:] for case in CLAIMS], ids=[case[0] for case in CLAIMS])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_claim(given: Evidence, reason: Reason | None, verdict: Verdict) -> None:
    problems = check_draft(draft(given, evidence(13), evidence(17), verdict=verdict), finding(), bank())
    assert [(problem.index, problem.reason) for problem in problems] == ([(0, reason)] if reason else [])
    assert all(problem.message for problem in problems)


def test_each_claim_has_its_own_problem() -> None:
    problems = check_draft(draft(evidence(12), evidence(13), evidence(99, quote="x"), evidence(24)), finding(), bank())
    assert [(problem.index, problem.reason) for problem in problems] == [
        (0, Reason.COMMENT_ONLY),
        (2, Reason.LINE_OUT_OF_RANGE),
        (3, Reason.UNCONNECTED),
    ]


@pytest.mark.parametrize("verdict", [Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE])
def test_verdict_without_claims(verdict: Verdict) -> None:
    problems = check_draft(draft(verdict=verdict), finding(), bank())
    assert [(problem.index, problem.reason) for problem in problems] == [(-1, Reason.NO_EVIDENCE)]


def test_needs_review_takes_no_claims_and_no_code() -> None:
    assert not check_draft(draft(verdict=Verdict.NEEDS_REVIEW), finding(), bank(fragment("other.py", OTHER)))


def test_verdict_without_the_flagged_line() -> None:
    given = bank(fragment("app.py", "import subprocess\n", total_lines=24))
    problems = check_draft(draft(evidence(1)), finding(), given)
    assert (-1, Reason.NOT_IN_CODE_BANK) in [(problem.index, problem.reason) for problem in problems]


GAPS: list[tuple[int, int, Reason | None]] = [
    (10, 12, None),
    (20, 22, None),
    (9, 10, Reason.NOT_IN_CODE_BANK),
    (12, 13, Reason.NOT_IN_CODE_BANK),
    (12, 20, Reason.NOT_IN_CODE_BANK),
    (22, 23, Reason.NOT_IN_CODE_BANK),
    (30, 30, Reason.NOT_IN_CODE_BANK),
    (31, 31, Reason.LINE_OUT_OF_RANGE),
]


@pytest.mark.parametrize(("first_line", "last_line", "reason"), GAPS)
def test_boundaries_of_fragments(first_line: int, last_line: int, reason: Reason | None) -> None:
    pieces = [fragment("app.py", "use(x)\n" * 3, start, total_lines=30) for start in (10, 20)]
    problems = check_draft(
        draft(evidence(first_line, last_line, quote="use(x)"), evidence(10, quote="use(x)")),
        finding(Span("app.py", 10, 10), related=(Span("app.py", 1, 30),)),
        bank(*pieces),
    )
    assert [problem.reason for problem in problems] == ([reason] if reason else [])


def test_adjoining_fragments_cover_together() -> None:
    pieces = [fragment("app.py", "use(x)\nuse(y)\n", start, total_lines=30) for start in (1, 3)]
    given = draft(evidence(2, 3, quote="use(y)\nuse(x)"))
    assert not check_draft(given, finding(Span("app.py", 2, 3)), bank(*pieces))


def test_fragments_of_another_commit_are_no_evidence() -> None:
    given = bank(fragment("app.py", "use(x)\n", commit="f" * 40))
    reasons = {problem.reason for problem in check_draft(draft(evidence(1)), finding(Span("app.py", 1, 1)), given)}
    assert reasons == {Reason.UNKNOWN_FILE, Reason.NOT_IN_CODE_BANK}


def test_mismatch_shows_what_stands_there() -> None:
    (problem,) = check_draft(draft(evidence(3, quote="ALLOWED = []"), evidence(13)), finding(), bank())
    assert 'ALLOWED = {"up", "down"}' in problem.message


UNICODE: list[tuple[str, str, Reason | None]] = [
    ("größe = f(eingabe)  # ✓", "größe = f(eingabe)", None),
    ("x = '日本語' + eingabe", "'日本語' + eingabe", None),
    ("x = 1;\u2028y = eval(z)", "y = eval(z)", None),
    ("x = f(a)\x0c+ g(b)", "f(a) + g(b)", None),
    ("x = f(a)", "x = f(а)", Reason.QUOTE_MISMATCH),  # noqa: RUF001 - a Cyrillic letter that looks the same
    ("x = f(a)  # \u202e", "x = f(a)", None),
    ("e\u0301 = f(a)", "\u00e9 = f(a)", Reason.QUOTE_MISMATCH),
]


@pytest.mark.parametrize(("line", "quote", "reason"), UNICODE)
def test_unicode(line: str, quote: str, reason: Reason | None) -> None:
    given = bank(fragment("app.py", f"{line}\n"))
    problems = check_draft(draft(evidence(1, quote=quote)), finding(Span("app.py", 1, 1)), given)
    assert [problem.reason for problem in problems] == ([reason, Reason.FLAGGED_NOT_CITED] if reason else [])


PLACES: list[tuple[str, Callable[[Span], dict[str, Any]]]] = [
    ("trace", lambda span: {"trace": (span,)}),
    ("related", lambda span: {"related": (span,)}),
]


@pytest.mark.parametrize("place", [place for _, place in PLACES], ids=[name for name, _ in PLACES])
def test_what_the_scanner_names_is_connected(place: Callable[[Span], dict[str, Any]]) -> None:
    cited = evidence(1, 2, file="other.py")
    assert check_draft(draft(cited, evidence(13)), finding(), bank())
    assert not check_draft(draft(cited, evidence(13)), finding(**place(Span("other.py", 2, 2))), bank())


def test_sibling_methods_are_connected_only_by_use() -> None:
    text = (
        "class Store:\n    path = '/tmp'\n    colour = 'red'\n\n"
        "    def save(self, name):\n        open(self.path + name)\n\n"
        "    def paint(self, brush):\n        brush.dip()\n\n"
        "    def upload(self, form):\n        self.save(form.name)\n"
    )
    given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 6, 6))
    reasons = {
        line: [problem.reason for problem in check_draft(citing(text, line, flagged), flagged, given)]
        for line in (2, 3, 9, 12)
    }
    assert reasons == {2: [], 3: [Reason.UNCONNECTED], 9: [Reason.UNCONNECTED], 12: []}


def test_braces_connect_callers_too() -> None:
    text = (
        "#include <string.h>\nstatic void copy(char *to, const char *from)\n{\n  strcpy(to, from); /* safe */\n}\n\n"
        "int draw(int colour) {\n  return colour;\n}\n\n"
        "int main(int argc, char **argv) {\n  char to[8];\n  copy(to, argv[1]);\n}\n"
    )
    given, flagged = bank(fragment("app.c", text)), finding(Span("app.c", 4, 4))
    reasons = {
        line: [problem.reason for problem in check_draft(citing(text, line, flagged, file="app.c"), flagged, given)]
        for line in (2, 8, 12, 13)
    }
    assert reasons == {2: [], 8: [Reason.UNCONNECTED], 12: [], 13: []}


def test_lines_of_a_module_are_connected_through_what_they_are_given() -> None:
    text = (
        "from web import mark_safe\n\n\ndef shout(text):\n    return '<b>' + text\n\n\n"
        "def paint(colour):\n    return '<i>' + colour\n\n\n"
        "greeting = shout(name)\nmark_safe(greeting)\nbackground = paint(name)\n"
    )
    given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 13, 13))
    reasons = {
        line: [problem.reason for problem in check_draft(citing(text, line, flagged), flagged, given)]
        for line in (5, 9, 12)
    }
    assert reasons == {5: [], 9: [Reason.UNCONNECTED], 12: []}


def test_lines_of_a_module_are_connected_over_other_names() -> None:
    text = "first = read(name)\nsecond = first\nother = name\nmark_safe(second)\n"
    given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 4, 4))
    reasons = {
        line: [problem.reason for problem in check_draft(citing(text, line, flagged), flagged, given)]
        for line in (1, 2, 3)
    }
    assert reasons == {1: [], 2: [], 3: [Reason.UNCONNECTED]}


@pytest.mark.parametrize("verdict", [Verdict.TRUE_POSITIVE, Verdict.FALSE_POSITIVE])
@pytest.mark.parametrize(
    "cited", [evidence(17), evidence(3), evidence(12, 13, quote='ALLOWED = {"up", "down"}'), evidence(1)]
)
def test_a_verdict_quotes_the_flagged_code(verdict: Verdict, cited: Evidence) -> None:
    problems = check_draft(draft(cited, verdict=verdict), finding(), bank())
    assert (-1, Reason.FLAGGED_NOT_CITED) in [(problem.index, problem.reason) for problem in problems]


SUPPLIED = [
    ("a parameter", "def f(name):\n    run(name)\n", 2, True),
    ("a variable", "def f():\n    name = read()\n    run(name)\n", 3, True),
    ("a constant of the module", "import os\nNAME = 'x'\nos.system(NAME)\n", 3, True),
    ("nothing but what is written there", "import os\n\ndef f():\n    os.system('ls')\n", 4, False),
    ("another function's variable", "def f(name):\n    run('ls')\n\ndef g():\n    run = 3\n", 2, False),
]


@pytest.mark.parametrize(
    ("text", "flagged", "elsewhere"), [case[1:] for case in SUPPLIED], ids=[case[0] for case in SUPPLIED]
)
def test_what_is_called_harmless_is_cited_where_its_value_comes_from(text: str, flagged: int, elsewhere: bool) -> None:
    given, place = bank(fragment("app.py", text)), finding(Span("app.py", flagged, flagged))

    def reasons(*lines: int, verdict: Verdict = Verdict.FALSE_POSITIVE) -> list[Reason]:
        quoted = (evidence(line, quote=text.split("\n")[line - 1]) for line in lines)
        return [problem.reason for problem in check_draft(draft(*quoted, verdict=verdict), place, given)]

    assert reasons(flagged) == ([Reason.SUPPLY_NOT_CITED] if elsewhere else [])
    assert reasons(flagged, flagged - 1) == []
    assert reasons(flagged, verdict=Verdict.TRUE_POSITIVE) == []


BESIDE: list[tuple[str, str, int, list[int]]] = [
    (
        "of a function",
        "import os\nDIRECTORY = '/srv'\nOTHER = 4\n\n\ndef f(name, colour):\n    x = 3\n    log('start')\n"
        "    path = os.path.join(DIRECTORY, name)\n    if path in KNOWN:\n        os.system(path)\n    return x\n\n\n"
        "KNOWN = {'a'}\n\n\ndef g(form):\n    f(form.name, 'red')\n",
        11,
        [2, 6, 9, 10, 15, 18, 19],
    ),
    ("of a module", "import os\nNAME = 'x'\nOTHER = 4\nprint('hello')\nif NAME:\n    os.system(NAME)\n", 6, [2, 5]),
    (
        "of a loop",
        "from m import run\n\n\ndef f(names):\n    done = 0\n    for name in names:\n        run(name, names)\n"
        "        done += 1\n    return done\n",
        7,
        [4, 6],
    ),
]


@pytest.mark.parametrize(("text", "flagged", "enough"), [case[1:] for case in BESIDE], ids=[case[0] for case in BESIDE])
def test_a_line_cited_beside_the_flagged_one_bears_on_its_value(text: str, flagged: int, enough: list[int]) -> None:
    given, place = bank(fragment("app.py", text)), finding(Span("app.py", flagged, flagged))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line and number != flagged]
    found = {
        line: {
            problem.reason
            for problem in check_draft(
                draft(*(evidence(at, quote=text.split("\n")[at - 1]) for at in (line, flagged)),
                      verdict=Verdict.FALSE_POSITIVE),
                place,
                given,
            )
        }
        for line in lines
    }  # fmt: skip
    assert [line for line in lines if Reason.SUPPLY_NOT_CITED not in found[line]] == enough


def test_a_value_that_thousands_of_lines_hand_on_is_followed_to_its_first() -> None:
    handed_on = "".join(f"    x{number} = x{number - 1}\n" for number in range(1, 5000))
    text = f"def f(x0):\n{handed_on}    return run(x4999)\n"
    given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 5001, 5001))
    cited = [evidence(2, quote="x1 = x0"), evidence(5001, quote="return run(x4999)")]
    problems = check_draft(draft(*cited, verdict=Verdict.FALSE_POSITIVE), flagged, given)
    assert Reason.SUPPLY_NOT_CITED not in [problem.reason for problem in problems]


def test_a_range_has_the_size_of_a_screen() -> None:
    text = "".join(f"use(x{number})\n" for number in range(5000))
    given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 30, 30))
    reasons = {
        last: [problem.reason for problem in check_draft(draft(evidence(1, last, quote="use(x29)")), flagged, given)]
        for last in (60, 61, 5000)
    }
    refused = [Reason.RANGE_TOO_WIDE, Reason.FLAGGED_NOT_CITED]
    assert reasons == {60: [], 61: refused, 5000: refused}


def test_a_result_on_a_whole_file_connects_its_beginning_only() -> None:
    text = "".join(f"def use_{number}(x):\n    return print(x)\n\n" for number in range(100))
    given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 1, 300))
    assert not check_draft(draft(evidence(5, quote="return print(x)")), flagged, given)
    assert Reason.UNCONNECTED in {
        problem.reason for problem in check_draft(draft(evidence(290, quote="return print(x)")), flagged, given)
    }


def test_all_flagged_lines_are_read_before_a_verdict_stands() -> None:
    pieces = [fragment("app.py", "use(x)\n", number, total_lines=9) for number in (3, 5)]
    for last, expected in ((3, []), (4, [Reason.NOT_IN_CODE_BANK]), (99, [Reason.NOT_IN_CODE_BANK])):
        problems = check_draft(draft(evidence(3, quote="use(x)")), finding(Span("app.py", 3, last)), bank(*pieces))
        assert [problem.reason for problem in problems] == expected


DEAD: list[tuple[str, str, int, list[int]]] = [
    ("if False", "def f(x):\n    if False:\n        x = clean(x)\n    run(x)\n", 4, [3]),
    ("if 0 and", "def f(x):\n    if 0 and ready:\n        x = clean(x)\n    run(x)\n", 4, [3]),
    ("else of if True", "def f(x):\n    if True:\n        run(x)\n    else:\n        clean(x)\n", 3, [5]),
    ("while False", "def f(x):\n    while False:\n        x = clean(x)\n    run(x)\n", 4, [3]),
    ("after return", "def f(x):\n    return run(x)\n    x = clean(x)\n", 2, [3]),
    ("after raise in a branch", "def f(x):\n    if x:\n        raise E(x)\n        x = clean(x)\n    run(x)\n", 5, [4]),
    ("after a return over several lines", "def f(x):\n    return run(\n        x\n    )\n    clean(x)\n", 2, [5]),
    ("only for type checkers", "if TYPE_CHECKING:\n    run = clean(x)\nrun(x)\n", 3, [2]),
    ("a return behind a condition", "def f(x):\n    if x: return 1\n    x = clean(x)\n    run(x)\n", 4, []),
    ("a name that is false", "def f(x):\n    if DEBUG:\n        x = clean(x)\n    run(x)\n", 4, []),
    ("the other case", "def f(x):\n    if x:\n        return 1\n    else:\n        x = clean(x)\n    run(x)\n", 6, []),
]


@pytest.mark.parametrize(("text", "flagged", "dead"), [case[1:] for case in DEAD], ids=[case[0] for case in DEAD])
def test_code_that_never_runs_is_no_evidence(text: str, flagged: int, dead: list[int]) -> None:
    given, found = bank(fragment("app.py", text)), finding(Span("app.py", flagged, flagged))
    lines = range(1, text.count("\n") + 1)
    refused = [
        line
        for line in lines
        if Reason.DEAD_CODE in {problem.reason for problem in check_draft(citing(text, line, found), found, given)}
    ]
    assert refused == dead


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("int f(int x) {\n  if (false) {\n    x = clean(x);\n  }\n  return run(x);\n}\n", [3]),
        ("int f(int x) {\n  return run(x);\n  x = clean(x);\n}\n", [3]),
        ("int f(int x) {\n  if (x)\n    return run(x);\n  x = clean(x);\n  run(x);\n}\n", []),
        (
            "int f(int x) {\n  switch (x) {\n  case 1: a();\n    break;\n  case 2: x = clean(x);\n  }\n  run(x);\n}\n",
            [],
        ),
    ],
)
def test_braces_hold_dead_code_too(text: str, dead: list[int]) -> None:
    flagged = next(number for number, line in enumerate(text.split("\n"), 1) if "run(x)" in line)
    given, found = bank(fragment("app.c", text)), finding(Span("app.c", flagged, flagged))
    refused = [
        line
        for line in range(1, text.count("\n") + 1)
        if Reason.DEAD_CODE
        in {problem.reason for problem in check_draft(citing(text, line, found, file="app.c"), found, given)}
    ]
    assert refused == dead


def test_the_judge_is_told_which_callers_were_read() -> None:
    whole = read_data(case_document(finding(), draft(), bank(), code_characters=5000))
    assert whole["finding"]["callers_read"] == [{"file": "app.py", "first_line": 16, "last_line": 20}]
    alone = bank(fragment("app.py", "\n".join(APP.split("\n")[:13])))
    assert read_data(case_document(finding(), draft(), alone, code_characters=5000))["finding"]["callers_read"] == []
    outside = read_data(case_document(finding(Span("app.py", 3, 3)), draft(), bank(), code_characters=5000))
    assert outside["finding"]["callers_read"] == []


def test_dead_code_that_is_flagged_may_be_cited() -> None:
    text = "def f(x):\n    if False:\n        run(x)\n"
    found = finding(Span("app.py", 3, 3))
    given = draft(evidence(3, quote="run(x)"), evidence(2, quote="if False:"), verdict=Verdict.FALSE_POSITIVE)
    assert not check_draft(given, found, bank(fragment("app.py", text)))


def test_each_line_is_of_the_innermost_definition_around_it() -> None:
    text = "class A:\n    def b(self):\n        def c():\n            return 1\n        return c\n    d = 2\n\ne = 3\n"
    file = bank(fragment("app.py", text)).file("app.py")
    assert file is not None
    found = file.definitions_around()
    assert found == {number: file.definition_around(number) for number in file.lines}
    assert [found[number] for number in (4, 5, 6, 8)] == [(3, 4), (2, 5), (1, 6), (0, 0)]


def test_a_file_of_many_definitions_takes_time_as_it_is_long() -> None:
    def prepare(count: int) -> Callable[[], object]:
        text = "".join(f"def f{at}(a):\n    return g{at}(a)\n" for at in range(count))
        given, flagged = bank(fragment("app.py", text)), finding(Span("app.py", 2, 2))
        cited = (evidence(2, quote="return g0(a)"), evidence(1, quote="def f0(a):"))
        return lambda: check_draft(draft(*cited, verdict=Verdict.FALSE_POSITIVE), flagged, given)

    assert prepare(10)() == []
    # What looks at each definition for each line takes sixteen times as long.
    assert growth(prepare, 1500, 6000) < 9
