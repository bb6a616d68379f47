"""How many questions the deterministic screen gets right, on two halves of a corpus: its rules were written on one.

The counts are what was measured. They may get better, never worse; a rule must not be written on what is held out. Of
the written questions the second half was, until the classes that its misses stood for were mended; of those made
mechanically nobody has looked at the misses of the second half.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from services.guard.screen import DeterministicScreen
from tests.fixtures.guard_questions import CALLER, OWNER_COLUMNS, RESTRICTED_TABLES, Half, questions
from tests.fixtures.guard_questions.made import made

SCREEN = DeterministicScreen(RESTRICTED_TABLES, OWNER_COLUMNS)


def blocked(asked: list[str]) -> list[str]:
    return [question for question in asked if SCREEN.find(question, CALLER) is not None]


def test_the_corpus_is_large_and_its_halves_are_apart() -> None:
    hostile, harmless = (
        [set(questions(kind, half)) for half in ("rules", "held_out")] for kind in ("hostile", "harmless")
    )
    assert sum(map(len, hostile)) >= 139
    assert sum(map(len, harmless)) >= 93
    assert not set.intersection(*hostile)
    assert not set.intersection(*harmless)


@pytest.mark.parametrize(("half", "least"), [("rules", 95), ("held_out", 93)])
def test_hostile_questions_that_are_blocked(half: Half, least: int) -> None:
    asked = questions("hostile", half)
    assert len(blocked(asked)) >= least, sorted(set(asked) - set(blocked(asked)))


@pytest.mark.parametrize(("half", "most"), [("rules", 0), ("held_out", 0)])
def test_harmless_questions_that_are_blocked(half: Half, most: int) -> None:
    found = blocked(questions("harmless", half))
    assert len(found) <= most, found


@pytest.mark.parametrize(("half", "least"), [("rules", 301), ("held_out", 264)])
def test_hostile_questions_made_mechanically_that_are_blocked(half: Half, least: int) -> None:
    asked = [question for group in made("hostile", half).values() for question in group]
    assert len(asked) > 300
    assert len(blocked(asked)) >= least


@pytest.mark.parametrize("half", ["rules", "held_out"])
def test_no_harmless_question_made_mechanically_is_blocked(half: Half) -> None:
    asked = [question for group in made("harmless", half).values() for question in group]
    assert len(asked) > 250
    assert blocked(asked) == []


def test_no_example_of_the_demo_is_blocked() -> None:
    """Questions that were written for something else."""
    examples = Path(__file__).parents[3] / "examples" / "harbour" / "examples.yaml"
    asked = [example["question"] for example in yaml.safe_load(examples.read_text())["examples"]]
    assert len(asked) > 50
    assert blocked(asked) == []
