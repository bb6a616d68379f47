"""Checklists: one for each kind of weakness, checked when loaded, chosen by CWE and language."""

import pytest
from signalbox.v1 import sast_pb2

from services.runtime.agents.sast_investigation.checklist import GENERAL, InvalidChecklistError, load_checklists

CHECKLISTS = load_checklists()
REQUIRED = {
    "sql_injection", "command_injection", "path_traversal", "xss", "deserialization", "weak_crypto",
    "hardcoded_secret", "xxe", "ssrf", "buffer_overflow", "use_after_free", "integer_overflow",
}  # fmt: skip
GOOD = """\
name: {name}
title: A title
cwes: [{cwe}]
look_for: [this]
questions: ["why?"]
safe_patterns: {{any: [constant]}}
evidence_required: [the line]
"""


def finding(cwe: str, file: str, rule: str = "R1") -> sast_pb2.Finding:
    """A finding of a weakness in a file."""
    return sast_pb2.Finding(cwe=cwe, rule_id=rule, location=sast_pb2.CodeLocation(file=file, first_line=1))


def test_every_required_kind_has_one() -> None:
    assert {one.name for one in CHECKLISTS} >= REQUIRED | {GENERAL}


@pytest.mark.parametrize(
    ("cwe", "file", "rule", "name"),
    [
        ("CWE-89", "app.py", "R1", "sql_injection"),
        ("CWE-78", "Main.java", "R1", "command_injection"),
        ("CWE-787", "copy.c", "R1", "buffer_overflow"),
        ("CWE-787", "copy.py", "R1", GENERAL),
        ("CWE-416", "list.hpp", "R1", "use_after_free"),
        ("CWE-190", "size.go", "R1", "integer_overflow"),
        ("CWE-79", "page.unknown", "R1", "xss"),
        ("CWE-20", "load.py", "B506", "deserialization"),
        ("", "load.py", "python.lang.security.deserialization.pickle", "deserialization"),
        ("", "users.py", "retrieval-of-users", GENERAL),
        ("", "users.py", "B6", GENERAL),
        ("", "users.py", "S608", "sql_injection"),
        ("", "users.py", "python:S608", GENERAL),
        ("CWE-99999", "users.py", "R1", GENERAL),
    ],
)
def test_the_one_for_a_finding(cwe: str, file: str, rule: str, name: str) -> None:
    assert CHECKLISTS.select(finding(cwe, file, rule)).name == name


def test_a_prompt_holds_what_is_safe_in_this_language_only() -> None:
    shown = CHECKLISTS.select(finding("CWE-89", "app.py")).shown("python")
    assert "cursor.execute" in str(shown)
    assert "PreparedStatement" not in str(shown)
    for part in ("look_for", "questions", "safe_patterns", "evidence_required"):
        assert shown[part]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [", "not YAML"),
        ("- a list", "file: Input should be"),
        (GOOD.format(name="other", cwe="CWE-1"), "must be named for it"),
        (GOOD.format(name="broken", cwe="79"), r"cwes\.0: "),
        (GOOD.format(name="broken", cwe=""), "needs at least one CWE"),
        (GOOD.format(name="broken", cwe="CWE-1") + "hints: [x]\n", "hints: Extra inputs"),
        (GOOD.format(name="broken", cwe="CWE-1").replace('["why?"]', "[]"), "questions: "),
        (GOOD.format(name="broken", cwe="CWE-1") + "languages: [c]\n", ""),
        (
            GOOD.format(name="broken", cwe="CWE-1").replace("any:", "python:") + "languages: [c]\n",
            "none of its languages",
        ),
    ],
)
def test_a_broken_file_is_named(text: str, said: str) -> None:
    texts = {"general.yaml": GOOD.format(name="general", cwe=""), "broken.yaml": text}
    if not said:
        assert {one.name for one in load_checklists(texts)} == {"general", "broken"}
        return
    with pytest.raises(InvalidChecklistError, match=rf"broken\.yaml: .*{said}"):
        load_checklists(texts)


def test_two_that_claim_the_same_weakness_are_refused() -> None:
    given = (("general", ""), ("one", "CWE-1"), ("two", "CWE-1"))
    texts = {f"{name}.yaml": GOOD.format(name=name, cwe=cwe) for name, cwe in given}
    with pytest.raises(InvalidChecklistError, match=r"one\.yaml and two\.yaml both claim CWE-1"):
        load_checklists(texts)


def test_there_is_always_one_to_fall_back_to() -> None:
    with pytest.raises(InvalidChecklistError, match="general"):
        load_checklists({"one.yaml": GOOD.format(name="one", cwe="CWE-1")})


def test_all_that_are_broken_are_named_at_once() -> None:
    broken = {f"{name}.yaml": "name: [" for name in ("one", "two")}
    with pytest.raises(InvalidChecklistError) as told:
        load_checklists({"general.yaml": GOOD.format(name="general", cwe=""), **broken})
    assert [problem.partition(":")[0] for problem in told.value.args] == ["one.yaml", "two.yaml"]
