"""The agent that ARCHITECTURE.md adds, run by a platform of the copy that it was added to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from services.local.settings import inherited_environment
from tests.fixtures.adding_an_agent import Tree, shown, steps
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.stack import World, platform


@pytest.mark.adding_an_agent
@pytest.mark.timeout(600)
async def test_the_page_is_followed_to_its_end(harbour: World, model: ScriptedModel, tmp_path: Path) -> None:
    tree = await asyncio.to_thread(Tree.copy, tmp_path / "tree")
    for step in steps():
        await asyncio.to_thread(step.take, tree)
    await asyncio.to_thread(_check, tree)
    base_env = {**inherited_environment(), "PYTHONPATH": tree.env["PYTHONPATH"]}
    command, expected = shown()
    async with platform(harbour, model=model, base_env=base_env) as running:
        env = {
            **base_env,
            "SIGNALBOX_GATEWAY": running.stack.gateway_address,
            "SIGNALBOX_TOKEN": running.stack.token("me"),
            "SIGNALBOX_RUNTIME_DIR": str(tmp_path / "none"),
        }
        # The token says who calls, where `--as` would with `signalbox up`.
        said = await asyncio.to_thread(_call, command.replace(" --as me", ""), tree, env)
        explained = await asyncio.to_thread(_call, "signalbox policies word_count", tree, env)
    assert said.splitlines()[: len(expected)] == expected
    assert "SUCCEEDED" in said
    assert "max_words" in explained


def _check(tree: Tree) -> None:
    """Holds the copy to what `make check` and the contract tests ask of an agent."""
    tree.call(
        sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider",
        "tests/contract/test_additions.py", "tests/unit/runtime/test_word_count_routers.py",
    )  # fmt: skip
    for command in (
        ("python", "protos/check.py"),
        ("python", "-m", "services.runtime.commands.documentation", "--check", "docs"),
        ("ruff", "check", "services", "tests/unit/runtime"),
        ("ruff", "format", "--check", "services"),
    ):
        tree.call(f".venv/bin/{command[0]}", *command[1:])


def _call(command: str, tree: Tree, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command.replace("signalbox ", f"{tree.path}/.venv/bin/python -P -m services.cli ")],
        env=env,
        cwd=tree.path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
