"""Each step of the page on adding an agent is needed: one that is left out is noticed by the next, or by the checks.

That takes copies of the repository and generates code, and all of them being enough is shown where the agent runs
(tests/e2e/test_adding_an_agent.py): `make adding-an-agent-test` does both. That the steps fit is always shown.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fixtures.adding_an_agent import Tree, edited, steps

REGISTRY = "services/runtime/agents/registry.py"


def test_the_steps_fit_the_files_that_are_there(tmp_path: Path) -> None:
    tree = Tree.copy(tmp_path / "tree")
    proto, _contract, folder, line, _tests, _documents = steps()
    for step in (proto, folder, line):
        step.take(tree)


@pytest.mark.adding_an_agent
def test_a_step_left_out_is_noticed(tmp_path: Path) -> None:
    tree = Tree.copy(tmp_path / "tree")
    proto, contract, folder, line, _tests, _documents = steps()
    unregistered = (tree.path / REGISTRY).read_text(encoding="utf-8")

    line.take(tree)
    assert "No module named 'services.runtime.agents.word_count'" in registered(tree)  # without the folder
    folder.take(tree)
    assert "cannot import name 'word_count_pb2'" in registered(tree)  # without its place in the contract
    with pytest.raises(AssertionError, match="make protos"):  # without the proto
        contract.take(tree)
    assert "word_count.proto: File not found" in tree.ask("make", "protos").stderr
    proto.take(tree)
    tree.call("make", "protos")
    # The rest is for the checks to notice: no test of every rule, no documents, and no line in the registry.
    assert failing(tree) == ["test_every_rule_is_named_in_the_tests_of_its_routers[word_count]"]
    documented = tree.ask(sys.executable, "-m", "services.runtime.commands.documentation", "--check", "docs")
    assert documented.returncode != 0
    assert "word_count.mmd, docs/routers.md, docs/agents.md" in documented.stderr
    (tree.path / REGISTRY).write_text(unregistered, encoding="utf-8")
    assert failing(tree) == ["test_every_agent_has_an_input_and_an_output"]


def registered(tree: Tree) -> str:
    """Returns what is said when the agents of the registry are loaded, which must fail."""
    done = tree.ask(sys.executable, "-c", "from services.runtime.agents import registry; registry.definitions()")
    assert done.returncode != 0
    return done.stderr


def failing(tree: Tree) -> list[str]:
    """Returns the tests of what is added with each agent that fail."""
    said = tree.ask(
        sys.executable, "-m", "pytest", "-qrf", "--tb=no", "--noconftest", "-p", "no:cacheprovider",
        "tests/contract/test_additions.py",
    ).stdout  # fmt: skip
    lines = [line for line in said.splitlines() if line.startswith("FAILED")]
    return [line.partition("::")[2].partition(" - ")[0] for line in lines]


def test_an_edit_of_lines_that_are_not_there_fails() -> None:
    assert edited("a\nb\n", " a\n+new\n") == "a\nnew\nb\n"
    with pytest.raises(AssertionError, match="0 times"):
        edited("a\n", " c\n+new\n")
