"""Which goals ask for a change by their own words, whatever a model takes them for."""

from __future__ import annotations

import pytest

from services.runtime.agents.graph_editor.goal import asks_for_a_change, left_undone

READS = {"effect": "reads"}


@pytest.mark.parametrize(
    "words",
    [
        "Create ZZ-1.", "Please assign T-1 to ann", "I want you to resolve T-1", "Find T-1, then archive it.",
        "Attach T-1 to john.doe", "Register a user named Ann", "Modify the status of T-1", "Setze T-1 auf closed",
        "Aktualisiere T-1", "Ordne T-1 der Ann zu", "Verschiebe T-1", "Asigna T-1 a Ann", "Modifique el estado de T-1",
        "Por favor registra a Ann", "Get rid of ticket T-1", "Put T-1 on hold", "Give T-1 the status closed",
        "T-1 should be closed", "We need a ticket OPS-9", "T-1 must have the owner Ann.",
        "Take T-1 off the list of Ann",
        "T-1 soll geschlossen sein", "Wir brauchen ein Ticket OPS-9", "Gib T-1 den Status closed",
        "T-1 debe estar cerrado", "Necesitamos un ticket OPS-9", "Deshazte de T-1",
    ],
)  # fmt: skip
def test_a_goal_that_asks_for_a_change(words: str) -> None:
    assert asks_for_a_change(READS, words)


@pytest.mark.parametrize(
    "words",
    [
        "Find all open tickets.", "Which tickets are marked as closed?", "How many tickets did Ann create?",
        "List what was changed last.", "Open tickets?", "Welche Tickets sind offen?", "¿Qué tickets hay?",
        "Show T-1 and its links.", "Which tickets should be closed?", "List the tickets that should be closed",
        "I need a list of all tickets", "Give me the tickets of Ann", "Tickets that are open", "Zeig, was weg soll",
        "Welche Tickets sollten geschlossen werden?", "Gib mir alle Tickets", "Wir brauchen eine Liste der Tickets",
        "\u00bfQu\u00e9 tickets deben estar cerrados?", "Necesito una lista de tickets", "Take a look at T-1",
    ],
)  # fmt: skip
def test_a_goal_that_only_reads(words: str) -> None:
    assert not asks_for_a_change(READS, words)
    assert asks_for_a_change({"effect": "writes"}, words)


@pytest.mark.parametrize(
    ("words", "done", "left"),
    [
        ("Close T-1, T-2 and T-3.", "update_props Ticket T-1 status closed", ["T-2", "T-3"]),
        ("Close T-1.", "update_props Ticket T-7 status closed", ["T-1"]),
        ("Create a 'REPORTS' edge from 'ann' to T-1", "add_node Ticket T-1 add_node User ann", ["REPORTS"]),
        ('Rename ben to "Benjamin Okri"', "update_props User ben name Ben", ["Benjamin Okri"]),
        ("Lege T-1 und T-2 an", "add_node Ticket T-1", ["T-2"]),
        ("Set the status of T-1 to 'in progress'", "update_props Ticket T-1 status in progress", []),
        ("Create a new 'User' with the property 'name: Ann'", "add_node User u name Ann", []),
        ("Get rid of ticket T-4", "delete_node Ticket T-4", []),
        ("Close all tickets except T-3", "update_props Ticket T-1 update_props Ticket T-2", []),
        ("If 'T-2' is open, close T-1", "update_props Ticket T-1 status closed", []),
        ("Create 3 tickets by 2026-05-01", "add_node add_node add_node", []),
        ("Mach Ann zur Besitzerin von T-1", "add_edge User u-1 Ticket T-1", []),
    ],
)
def test_what_a_goal_names_and_nothing_that_was_done_has(words: str, done: str, left: list[str]) -> None:
    assert left_undone(words, done) == left
