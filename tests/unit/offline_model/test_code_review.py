"""How the offline reviewer follows values, what it cites and asks for, and where it gives up."""

from __future__ import annotations

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE, NEEDS_REVIEW, TRUE_POSITIVE, Need
from services.offline_model.code_review.review import Finding, review
from services.offline_model.code_review.shown import Shown
from tests.unit.offline_model.reviews import (
    COMMAND,
    SQL,
    read,
    verdict,
)


def test_values_are_followed_through_functions_and_files() -> None:
    code = """
        from app.names import table_of

        def find(db):
            return db.execute("SELECT * FROM " + table_of(request.args["kind"]))  # <-
    """
    fixed = 'TABLES = {"a": "t_a"}\n\ndef table_of(kind):\n    return TABLES[kind]\n'
    loose = "def table_of(kind):\n    return 't_' + kind\n"
    assert verdict(SQL, code, extra={"app/names.py": fixed}) == FALSE_POSITIVE
    assert verdict(SQL, code, extra={"app/names.py": loose}) == TRUE_POSITIVE
    shown, line = read(code)
    opinion = review(Finding("B608", SQL, "app/service.py", line, line), shown)
    assert opinion.verdict == NEEDS_REVIEW
    assert opinion.needs == (Need("definition", "table_of"),)


def test_claims_cite_the_flagged_line_and_the_source() -> None:
    code = """
        def find(db):
            name = request.args["name"]
            return db.execute("SELECT * FROM t WHERE n = '" + name + "'")  # <-
    """
    shown, line = read(code)
    opinion = review(Finding("B608", SQL, "app/service.py", line, line), shown)
    assert [evidence.first_line for evidence in opinion.evidence] == [3, 2]


def test_what_was_not_shown_is_asked_for() -> None:
    opinion = review(Finding("B608", SQL, "app/service.py", 9, 9), Shown())
    assert opinion.verdict == NEEDS_REVIEW
    assert opinion.needs == (Need("lines", "app/service.py", 9),)


def test_methods_read_without_their_class_are_understood() -> None:
    shown = Shown()
    shown.add("app/service.py", {41: "    def find(self, db):", 42: "        db.execute('SELECT 1')"})
    assert review(Finding("B608", SQL, "app/service.py", 42, 42), shown).verdict == FALSE_POSITIVE


@pytest.mark.parametrize("broken", ["def f(:\n    db.execute(x)", "\t\x00", "(" * 300])
def test_code_that_does_not_parse_is_left_to_others(broken: str) -> None:
    shown = Shown()
    shown.add("app/service.py", dict(enumerate(broken.split("\n"), start=1)))
    assert review(Finding("B608", SQL, "app/service.py", 1, 1), shown).verdict == NEEDS_REVIEW


def test_a_value_that_feeds_itself_ends() -> None:
    code = """
        def find(db, name):
            while name:
                name = name.strip()
            return db.execute("SELECT " + name)  # <-

        def again(db, name):
            return find(db, name) or again(db, name)
    """
    assert verdict(SQL, code) == NEEDS_REVIEW


def test_other_languages_need_a_larger_model() -> None:
    assert verdict(SQL, 'db.Query("SELECT " + name) // <-', path="main.go") == NEEDS_REVIEW


def test_a_function_between_pieces_of_others_is_understood() -> None:
    lines = {
        21: "    name = request.form['name']",
        22: "    if name:",
        23: "        note(name)",
        24: "    return jsonify({",
        27: "def note(name):",
        28: "    os.system('log ' + name)",
        30: "def other(:",
    }
    shown = Shown()
    shown.add("app/service.py", lines)
    opinion = review(Finding("B605", COMMAND, "app/service.py", 28, 28), shown)
    assert opinion.verdict == TRUE_POSITIVE


@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        ("B113", "requests.get(url)", TRUE_POSITIVE),
        ("B113", "requests.get(url, timeout=3)", NEEDS_REVIEW),
        ("B306", "path = tempfile.mktemp()", TRUE_POSITIVE),
    ],
)
def test_rules_that_say_more_than_their_weakness(rule: str, line: str, expected: str) -> None:
    shown = Shown()
    shown.add("app/service.py", {1: line})
    assert review(Finding(rule, "CWE-400", "app/service.py", 1, 1), shown).verdict == expected


@pytest.mark.parametrize(("rule", "expected"), [("S605", TRUE_POSITIVE), ("sonar:S605", NEEDS_REVIEW)])
def test_rules_of_a_log_without_weaknesses(rule: str, expected: str) -> None:
    shown = Shown()
    shown.add("app/service.py", {1: "os.system(request.args['command'])"})
    assert review(Finding(rule, "", "app/service.py", 1, 1), shown).verdict == expected


def test_a_call_whose_function_was_not_read_is_asked_for() -> None:
    shown = Shown()
    lines = {8: "    note(name)", 20: "def note(name):", 21: "    os.system('log ' + name)"}
    shown.add("app/service.py", lines)
    finding = Finding("B605", COMMAND, "app/service.py", 21, 21)
    assert review(finding, shown).needs[0] == Need("lines", "app/service.py", 8)
    shown = Shown()
    shown.add("app/service.py", {6: "def login():", 7: "    name = request.form['name']", **lines})
    assert review(finding, shown).verdict == TRUE_POSITIVE


def test_a_definition_without_its_docstring_still_parses() -> None:
    shown = Shown()
    shown.add("app/service.py", {1: "class Plain(yaml.SafeLoader):", 4: "x = yaml.load(request.data, Loader=Plain)"})
    assert review(Finding("B506", "CWE-20", "app/service.py", 4, 4), shown).verdict == FALSE_POSITIVE


def test_a_map_that_was_not_shown_is_asked_for_whatever_its_key() -> None:
    shown = Shown()
    shown.add("app/service.py", {1: 'db.execute("SELECT " + COLUMNS.get(request.args["c"], "name"))'})
    opinion = review(Finding("B608", SQL, "app/service.py", 1, 1), shown)
    assert (opinion.verdict, opinion.needs) == (NEEDS_REVIEW, (Need("definition", "COLUMNS"),))
