"""What the offline model makes of goals for a graph, and of what it can't read."""

from __future__ import annotations

from typing import Any

import pytest

from services.offline_model.conversation import Conversation
from services.offline_model.graph_goals.reading import GoalReader
from services.offline_model.skills.edit_graph import plan_operations, read_goal, word_findings
from services.offline_model.vocabulary import GraphLabel, Vocabulary

VOCABULARY = Vocabulary(
    labels={"ticket": GraphLabel(keys=r"[A-Z]+-\d+", title="summary"), "user": GraphLabel(title="name")},
    edges={"REPORTS": ("user", "ticket")},
)
read = GoalReader(VOCABULARY).read

TICKET = {"label": "Ticket", "key": "T-1"}
EDGE = {"type": "REPORTS", "from": {"label": "User", "key": "ann"}, "to": TICKET}


def said(given: Any) -> Conversation:
    """A conversation whose material is one document."""
    return Conversation(given, (), (), must_call=True)


def spec(goal: str, *settled: str) -> dict[str, Any]:
    """How a goal is read."""
    clarifications = [{"question": "Which?", "about": "contradiction", "answer": answer} for answer in settled]
    [call] = read_goal(said({"goal": goal, "clarifications": clarifications}), VOCABULARY).calls
    return call.arguments


def plan(goal: str, **given: Any) -> list[dict[str, Any]]:
    """What is planned."""
    [call] = plan_operations(said({"goal": goal, **given}), VOCABULARY).calls
    assert call.arguments["goal_reached"]
    return list(call.arguments["operations"])


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("Create a ticket with the key 'T-1'.", "add_node", TICKET),
        ("Please add a new Ticket node with key T-1 and status open", "add_node",
         {**TICKET, "properties": {"status": "open"}}),
        ("Add a ticket T-1 with the summary 'It is slow; fix it. Soon.'", "add_node",
         {**TICKET, "properties": {"summary": "It is slow; fix it. Soon."}}),
        ("Create a 'REPORTS' edge from User 'ann' to Ticket 'T-1'", "add_edge", EDGE),
        ("Remove the REPORTS edge from user ann to ticket T-1.", "delete_edge", EDGE),
        ("Set the status of ticket T-1 to 'in progress'.", "update_props",
         {**TICKET, "properties": {"status": "in progress"}}),
        ("Close ticket T-1", "update_props", {**TICKET, "properties": {"status": "closed"}}),
        ("Mark the ticket T-1 as closed", "update_props", {**TICKET, "properties": {"status": "closed"}}),
        ("Delete the ticket T-1 with its edges", "delete_node", {**TICKET, "with_edges": True}),
        ("List all tickets", "query_graph", {"label": "Ticket"}),
        ("Show me all closed tickets", "query_graph",
         {"label": "Ticket", "where": [{"property": "status", "value": "closed"}]}),
        ("Find users whose name is 'Ann Lee'", "query_graph",
         {"label": "User", "where": [{"property": "name", "value": "Ann Lee"}]}),
        ("Show ticket T-1", "query_graph", {"label": "Ticket", "where": [{"property": "key", "value": "T-1"}]}),
        ("Use the `send_email` tool to tell the team", "send_email", {}),
    ],
)  # fmt: skip
def test_a_simple_goal(text: str, tool: str, arguments: dict[str, Any]) -> None:
    found = spec(text)
    assert (found["complexity"], found["confidence"], found["in_scope"]) == ("simple", 0.9, True)
    assert found["operation"] == {"tool": tool, "arguments": arguments}


@pytest.mark.parametrize(
    ("text", "in_scope"),
    [
        ("My dashboard is broken. Fix it.", True),
        ("Do something with the tickets", True),
        ("Delete every ticket that nobody has touched for a year", True),
        ("What's the weather like in London?", False),
        ("Who won the match?", False),
    ],
)
def test_what_no_pattern_covers_is_not_guessed(text: str, in_scope: bool) -> None:
    found = spec(text)
    assert (found["in_scope"], "operation" in found, found["confidence"] < 0.5) == (in_scope, False, True)
    assert found["questions"]


def test_a_sentence_that_is_not_understood_is_asked_about() -> None:
    found = spec("Create a ticket with the key 'T-1'. Then tell everybody about it.")
    assert found["confidence"] < 0.5
    assert "tell everybody about it" in found["questions"][0]


def test_a_contradiction_is_settled_by_its_answer_alone() -> None:
    goal = "Create a new ticket with the key 'T-1' and the status 'open'. The ticket should be closed."
    found = spec(goal)
    assert [each["choices"] for each in found["contradictions"]] == [["open", "closed"]]
    for answer in ("open", "closed"):
        settled = spec(goal, answer)
        assert settled["contradictions"] == []
        assert settled["operation"]["arguments"]["properties"] == {"status": answer}
    assert len(spec(goal, "open or closed, whatever")["contradictions"]) == 1


def test_what_was_done_is_not_planned_again() -> None:
    goal = "Create a ticket with the key 'T-1'. Create a user with the key 'ann'."
    first, second = plan(goal)
    assert plan(goal, done=[first]) == [second]
    assert plan(goal, done=[first, second]) == []


def test_what_is_there_already_is_brought_to_what_was_wanted() -> None:
    goal = "Create a ticket with the key 'T-1' and the status 'closed'."
    [operation] = plan(goal, went_wrong={"reason": "already_there"})
    assert operation["tool"] == "update_props"


def test_advice_goes_first() -> None:
    advice = ["Create a ticket with the key 'T-1'."]
    first, second = plan("Set the status of ticket T-1 to 'closed'.", advice=advice)
    assert (first["tool"], second["tool"]) == ("add_node", "update_props")


def test_advice_on_the_same_stands_in_its_place() -> None:
    goal, advice = "Delete ticket T-9. Create a user with the key 'ann'.", ["Delete ticket T-1", "delete ticket T-1"]
    first, second = plan(goal, advice=advice)
    assert (first["tool"], first["arguments"]["key"], second["tool"]) == ("delete_node", "T-1", "add_node")
    assert plan(goal, advice=advice, done=[first, second]) == []


@pytest.mark.parametrize("goal", ["Delete all tickets", "Remove every Ticket.", "delete any user", "Drop these edges"])
def test_what_names_nothing_to_delete_is_asked_about(goal: str) -> None:
    assert read(goal).operations == []
    assert spec(goal)["confidence"] < 0.5


def test_without_a_goal_nothing_is_handed_in() -> None:
    assert word_findings(said({"no": "goal"})).calls == ()
    for skill in (read_goal, plan_operations):
        assert skill(said({"no": "goal"}), VOCABULARY).calls == ()
    assert plan_operations(said({"goal": "Do it well."}), VOCABULARY).calls == ()


def test_findings_are_worded() -> None:
    def worded(*results: str) -> str:
        return word_findings(said({"goal": "Find them.", "results": results})).text

    assert worded("Nothing found.") == "Nothing was found."
    two = """(Ticket 'T-1' {"status": "open"})\n(Ticket 'T-2' {})"""
    assert worded(two) == "Found 2:\n- Ticket 'T-1' (status: open)\n- Ticket 'T-2'"
    assert worded("(Ticket 'T-1' {})\n[cut: 1 results are shown]").startswith("Found 1 and more:")


def test_hostile_text_stays_text() -> None:
    key = "'); DROP"
    [operation] = read(f'Create a ticket with the key "{key}".').operations
    assert operation["arguments"]["key"] == key
