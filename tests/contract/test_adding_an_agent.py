"""The page on adding an agent is true: what it says is all that it takes, and each step left out is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.adding_an_agent import Tree, edited, steps

STEPS = steps()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A copy of the repository."""
    return Tree.copy(tmp_path / "tree")


def test_with_all_its_steps_the_checks_pass(tree: Tree) -> None:
    for step in STEPS:
        step.take(tree)
    done = tree.checked()
    assert done.returncode == 0, done.stdout[-3000:]
    tree.call(".venv/bin/python", "protos/check.py")
    for command in (["ruff", "check", "services", "tests/unit/runtime"], ["ruff", "format", "--check", "services"]):
        tree.call(*(f".venv/bin/{command[0]}", *command[1:]))


@pytest.mark.parametrize("left_out", STEPS, ids=[step.name[:20] for step in STEPS])
def test_a_step_left_out_is_noticed(tree: Tree, left_out: object) -> None:
    """By the next one that can't be taken without it, or by the checks."""
    try:
        for step in STEPS:
            if step is not left_out:
                step.take(tree)
    except AssertionError:
        return
    done = tree.checked()
    assert done.returncode != 0, done.stdout[-3000:]


def test_an_edit_of_lines_that_are_not_there_fails() -> None:
    assert edited("a\nb\n", " a\n+new\n") == "a\nnew\nb\n"
    with pytest.raises(AssertionError, match="0 times"):
        edited("a\n", " c\n+new\n")
