"""The policy file: every error is named; what roles may do; what properties may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.graph_executor.policy import Access, GraphPolicy, PropertyRule, check_properties
from services.kit.identity.caller import Caller
from services.kit.text.policy_file import PolicyFileError, load_policy_file

WRONG = """
version: 1
labels:
  Ticket: {properties: {key: {type: string}, size: {type: integer, values: [a]}}, required: [summary]}
  lower-case: {}
edges:
  REPORTS: {from: [User], to: [Nobody]}
roles:
  "*": {read: [Unknown]}
procedures: [db.labels]
limits: {depth: 1000, nothing: 1}
"""
INCONSISTENT = """
version: 1
labels: {Ticket: {properties: {key: {type: string}}, required: [summary]}}
edges:
  REPORTS: {from: [User], to: [Ticket]}
  Ticket: {from: [Ticket], to: [Ticket]}
roles: {"*": {read: [Unknown], write: [Other]}}
procedures: [db.labels, algo.pageRank]
"""
ROLES = """
version: 1
labels: {Ticket: {}, User: {}}
roles:
  "*": {read: [User]}
  reader: {read: "*"}
  editor: {write: [Ticket]}
  graph_writer: {write: "*"}
"""


def load(directory: Path, text: str) -> GraphPolicy:
    file = directory / "graph_policy.yaml"
    file.write_text(text, encoding="utf-8")
    return load_policy_file(file, GraphPolicy)


def test_every_error_of_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError) as raised:
        load(tmp_path, WRONG)
    told = str(raised.value)
    for problem in ("labels.Ticket.properties.size", "lower-case", "limits.depth", "limits.nothing"):
        assert problem in told, told


def test_every_inconsistency_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError) as raised:
        load(tmp_path, INCONSISTENT)
    told = str(raised.value)
    for problem in (
        "labels.Ticket.required: summary",
        "labels.Ticket.properties: key",
        "edges.REPORTS.from: there is no label User",
        "edges.Ticket: is also a label",
        "roles.*.read: there is no label Unknown",
        "roles.*.write: there is no label Other",
        "procedures: db.labels",
    ):
        assert problem in told, told
    assert "algo.pageRank" not in told


@pytest.mark.parametrize("name", ["__signalbox_result", "_x", "a b", "Ticket`", "", "1a", "a" * 64])
def test_a_label_is_an_identifier_and_never_ours(tmp_path: Path, name: str) -> None:
    with pytest.raises(PolicyFileError):
        load(tmp_path, f"version: 1\nlabels: {{{name!r}: {{}}}}\nroles: {{a: {{}}}}\n")


def test_roles_add_up(tmp_path: Path) -> None:
    policy = load(tmp_path, ROLES)

    def access(*roles: str) -> Access:
        return Access(policy, Caller("27", frozenset(roles)))

    assert access().readable == {"User"}
    assert not access().writable
    assert access("unheard of").readable == {"User"}
    assert access("reader").reads_all
    assert not access("reader").writable
    editor = access("editor")
    assert editor.readable == {"User", "Ticket"}
    assert editor.writable == {"Ticket"}
    assert not editor.writes_cypher
    assert access("graph_writer").writes_cypher


@pytest.mark.parametrize(
    ("kind", "fitting", "unfit"),
    [
        ("string", "x", [1, True, ["x"], 1.5]),
        ("integer", 1, ["1", True, 1.5]),
        ("number", 1.5, ["1", False, 1.7e308, float("inf")]),
        ("boolean", True, [0, 1, "true"]),
        ("strings", ["a"], ["a", [1], [["a"]]]),
    ],
)
def test_a_property_holds_its_type(kind: str, fitting: object, unfit: list[object]) -> None:
    rules = {"p": PropertyRule.model_validate({"type": kind})}
    assert not list(check_properties(rules, {"p": fitting}, "Ticket"))
    for value in unfit:
        assert list(check_properties(rules, {"p": value}, "Ticket")), value


def test_strings_are_bounded_and_may_be_a_choice() -> None:
    rules = {"s": PropertyRule(type="string", values=["open"]), "t": PropertyRule(type="strings", max_length=2)}
    assert not list(check_properties(rules, {"s": "open", "t": ["ab"]}, "Ticket"))
    assert len(list(check_properties(rules, {"s": "shut", "t": ["abc"], "u": 1}, "Ticket"))) == 3
