"""Writes a graph's lifted tables into its own code: `python -m services.runtime.commands.adopt AGENT --agents FOLDER`.

A module of tables and its tests come beside the graph's file; the edges that name the tables are shown as a difference,
and are written where they are found for certain and somebody says so. Status 1 where nothing is written, 2 where the
folder can't be loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from services.runtime.commands.lift import definitions_of
from services.runtime.hosted.adoption.adopted import Adopted, adopted
from services.runtime.hosted.adoption.edge_edit import Edit, edited
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.langgraph_json import InvalidAgentsError, LanggraphFile, read_langgraph_file
from services.runtime.hosted.loading import name_of_module

MODULE = "services.runtime.commands.adopt"


class RefusedError(Exception):
    """What is not written, and why."""


@dataclass(frozen=True)
class _Place:
    """Where a graph's tables go."""

    graph: Path
    tables: Path
    tests: Path
    module: str

    @classmethod
    def of(cls, agent: str, file: LanggraphFile, module: str) -> _Place:
        reference = next(each for each in file.graphs if each.agent == agent)
        _, name = name_of_module(reference.file, file)
        package = name.rpartition(".")[0]
        stem = module or f"{agent.replace('-', '_')}_routing"
        if not stem.isidentifier():
            raise RefusedError(f"{stem!r} is no name of a module; give --module another")
        folder = reference.file.parent
        return cls(reference.file, folder / f"{stem}.py", folder / f"test_{stem}.py", f"{package}.{stem}".strip("."))


async def _definition(folder: Path, agent: str, stack: AsyncExitStack) -> HostedDefinition:
    found = {each.name: each for each in await definitions_of(folder, stack)}
    if agent not in found:
        raise InvalidAgentsError([f"there is no graph {agent!r}; there are {', '.join(sorted(found))}"])
    return found[agent]


async def _adopt(given: argparse.Namespace) -> int:
    file = read_langgraph_file(given.agents)
    async with AsyncExitStack() as stack:
        definition = await _definition(given.agents, given.agent, stack)
        if given.tables:
            sys.stdout.write(json.dumps(sorted(definition.lifted.given)))
            return 0
        place = _Place.of(given.agent, file, given.module)
        made = adopted(definition.graph_given, given.agent, definition.lifted, place.module, given.states)
        _say_what_stays(definition, made)
        if not made.edges:
            sys.stdout.write("there is nothing to write\n")
            return 0 if definition.lifted.given else 1
        _refuse_used(definition, place)
    _write({place.tables: made.module, place.tests: made.tests}, force=given.force)
    sys.stdout.write(f"{len(made.edges)} tables agree with their functions on {made.states:,} states\n")
    text = place.graph.read_text("utf-8")
    edit = edited(text, place.module, made.edges)
    sys.stdout.writelines(_difference(text, edit, place.graph.name))
    sys.stdout.writelines(f"to be written by hand in {place.graph.name}: {line}\n" for line in edit.by_hand)
    if given.write:
        _write_edges(given, place, text, edit)
    return 0


def _say_what_stays(definition: HostedDefinition, made: Adopted) -> None:
    sys.stdout.writelines(f"{name} is a table already\n" for name in sorted(definition.lifted.given))
    sys.stdout.writelines(f"{name} stays as it is: {why}\n" for name, why in made.left.items())
    sys.stdout.writelines(f"no state was found for {rule}: it has no test\n" for rule in made.untested)


def _refuse_used(definition: HostedDefinition, place: _Place) -> None:
    """Raises RefusedError where the module holds tables that the graph uses."""
    for name, table in definition.lifted.given.items():
        module = sys.modules.get(table.facts_type.__module__)
        if isinstance(module, ModuleType) and Path(module.__file__ or "").resolve() == place.tables.resolve():
            raise RefusedError(f"{place.tables.name} has the table {name}, which the graph uses; give --module another")


def _write(files: dict[Path, str], *, force: bool) -> None:
    """Writes files, all or none. Raises RefusedError for one that is there and says something else."""
    there = {path: path.read_text("utf-8") for path in files if path.exists()}
    others = [path.name for path, text in there.items() if text != files[path]]
    if others and not force:
        raise RefusedError(f"{' and '.join(others)}: there already, and not the same; --force writes over it")
    for path, text in files.items():
        same = there.get(path) == text
        if not same:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{path.name} is as it was\n" if same else f"wrote {path.name}\n")


def _difference(text: str, edit: Edit, name: str) -> Iterator[str]:
    return difflib.unified_diff(
        text.splitlines(keepends=True), edit.text.splitlines(keepends=True), name, f"{name} with tables"
    )


def _write_edges(given: argparse.Namespace, place: _Place, text: str, edit: Edit) -> None:
    """Writes the graph's file, and sees in another process that its edges are tables then. Raises RefusedError."""
    if edit.text == text:
        return
    place.graph.write_text(edit.text, "utf-8")
    command = (sys.executable, "-P", "-m", MODULE, "--tables", "--agents", str(given.agents), "--", given.agent)
    seen = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    tables = json.loads(seen.stdout.strip().splitlines()[-1]) if seen.returncode == 0 and seen.stdout.strip() else []
    if len(tables) < edit.count:
        place.graph.write_text(text, "utf-8")
        said = seen.stderr.strip()[-500:] or f"of its edges {', '.join(tables) or 'none'} would be tables"
        raise RefusedError(f"{place.graph.name} is as it was: with its edges written so, {said}")
    sys.stdout.write(f"wrote {place.graph.name}\n")


def main(arguments: Sequence[str]) -> int:
    """Writes a graph's tables; returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Writes lifted tables into code.")
    parser.add_argument("agent", metavar="AGENT")
    parser.add_argument("--agents", type=Path, default=Path(), metavar="FOLDER", help="folder with a langgraph.json")
    parser.add_argument("--module", default="", metavar="NAME", help="module to write beside the graph's")
    parser.add_argument("--write", action="store_true", help="put the tables at the graph's edges, too")
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    parser.add_argument("--states", type=int, default=10_000, help="states to hold each table against")
    parser.add_argument("--tables", action="store_true", help="say only which of its edges are tables")
    try:
        return asyncio.run(_adopt(parser.parse_args(arguments)))
    except InvalidAgentsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return 2
    except RefusedError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
