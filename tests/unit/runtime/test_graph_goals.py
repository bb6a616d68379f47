"""Which goals ask for a change by their own words, whatever a model takes them for."""

from __future__ import annotations

import pytest

from services.runtime.agents.graph_editor.goal import asks_for_a_change

READS = {"effect": "reads"}


@pytest.mark.parametrize(
    "words",
    [
        "Create ZZ-1.", "Please assign T-1 to ann", "I want you to resolve T-1", "Find T-1, then archive it.",
        "Attach T-1 to john.doe", "Register a user named Ann", "Modify the status of T-1", "Setze T-1 auf closed",
        "Aktualisiere T-1", "Ordne T-1 der Ann zu", "Verschiebe T-1", "Asigna T-1 a Ann", "Modifique el estado de T-1",
        "Por favor registra a Ann",
    ],
)  # fmt: skip
def test_a_goal_that_asks_for_a_change(words: str) -> None:
    assert asks_for_a_change(READS, words)


@pytest.mark.parametrize(
    "words",
    [
        "Find all open tickets.", "Which tickets are marked as closed?", "How many tickets did Ann create?",
        "List what was changed last.", "Open tickets?", "Welche Tickets sind offen?", "¿Qué tickets hay?",
        "Show T-1 and its links.",
    ],
)  # fmt: skip
def test_a_goal_that_only_reads(words: str) -> None:
    assert not asks_for_a_change(READS, words)
    assert asks_for_a_change({"effect": "writes"}, words)
