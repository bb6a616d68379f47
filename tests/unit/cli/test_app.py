"""The command as a whole: its version, its commands in groups, and completion for shells."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from services.cli.app import GROUPS, app


def invoke(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    done = CliRunner().invoke(app, arguments, env=env, prog_name="signalbox")
    assert done.exit_code == 0, done.output
    return done.output


def test_it_says_its_version() -> None:
    assert invoke("--version") == f"signalbox {version('signalbox')}\n"


def test_help_has_every_command_in_a_group() -> None:
    boxes = [line.strip("╭╮─ ") for line in invoke("--help").splitlines() if line.startswith("╭")]
    assert boxes == ["Options", *GROUPS]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_its_commands(shell: str) -> None:
    begun = {"COMP_WORDS": "signalbox dec", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "signalbox dec"}
    completed = invoke(
        env={**begun, "_SIGNALBOX_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    assert "decisions" in completed
    assert "runs" not in completed
