"""The table of commands in the command's own page has every command that there is, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from services.cli.app import app
from tests.contract.deploy.helm import ROOT

PAGE = ROOT / "services" / "cli" / "README.md"
CELL_END = re.compile(r"(?<!\\)\|")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yields the words of every command below one."""
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))
    else:
        yield " ".join(path)


def named(cell: str) -> Iterator[str]:
    """Yields what a cell names, each alternative on its own: `thread show\\|fork` is two."""
    for text in re.findall(r"`([^`]+)`", cell):
        first, *others = text.replace("\\|", "|").split()
        words = others[0].split("|") if others and "|" in others[0] else []
        yield from (f"{first} {word}" for word in words) if words else (first,)


def test_the_table_has_every_command_and_no_other() -> None:
    known = set(commands(typer.main.get_command(app)))
    table = PAGE.read_text(encoding="utf-8").partition("| command | |\n|---|---|\n")[2].partition("\n\n")[0]
    shown = {name for line in table.splitlines() for name in named(CELL_END.split(line)[1])}
    # What follows a command can be its argument, as with `sql-policy plan|apply`.
    assert {name if name in known else name.partition(" ")[0] for name in shown} == known
