"""Writes a graph's lifted tables into its own code: `python -m services.runtime.commands.adopt AGENT --agents FOLDER`.

A module of tables and its tests come beside the graph's file; the edges that name the tables are shown as a difference,
and are written where they are found for certain and somebody says so. Status 1 where nothing is written, 2 where the
folder can't be loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from signalbox_routing.table import Router

from services.runtime.commands.lift import definitions_of
from services.runtime.hosted.adoption.adopted import Adopted, adopted
from services.runtime.hosted.adoption.edge_edit import Edit, edited
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.langgraph_json import InvalidAgentsError, LanggraphFile, read_langgraph_file
from services.runtime.hosted.lifting.lifted import PathBranch
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
    # By which the graph's file is imported.
    graph_module: str

    @classmethod
    def of(cls, agent: str, file: LanggraphFile, module: str) -> _Place:
        reference = next(each for each in file.graphs if each.agent == agent)
        _, name = name_of_module(reference.file, file)
        package = name.rpartition(".")[0]
        stem = module or f"{agent.replace('-', '_')}_routing"
        if not stem.isidentifier():
            raise RefusedError(f"{stem!r} is no name of a module; give --module another")
        folder = reference.file.parent
        tables, tests = folder / f"{stem}.py", folder / f"test_{stem}.py"
        for each in file.graphs:
            if each.file in (tables.resolve(), tests.resolve()):
                raise RefusedError(f"{each.file.name} has the graph {each.agent!r}; give --module another")
        return cls(reference.file, tables, tests, f"{package}.{stem}".strip("."), name)


async def _adopt(given: argparse.Namespace) -> int:
    file = read_langgraph_file(given.agents)
    async with AsyncExitStack() as stack:
        definitions = {each.name: each for each in await definitions_of(given.agents, stack)}
        decided_by = _decided_by(definitions.values())
        if given.edges:
            sys.stdout.write(json.dumps(decided_by))
            return 0
        if given.agent not in definitions:
            there = ", ".join(sorted(definitions))
            raise InvalidAgentsError([f"there is no graph {given.agent!r}; there are {there}"])
        definition = definitions[given.agent]
        place = _Place.of(given.agent, file, given.module)
        made = adopted(definition.graph_given, given.agent, definition.lifted, place.module, given.states)
        _say_what_stays(definition, made)
        if not made.edges:
            sys.stdout.write("there is nothing to write\n")
            return 0 if definition.lifted.given else 1
        _refuse_used(definition, place)
        names = vars(sys.modules[place.graph_module])
    edit = edited(place.graph.read_bytes(), names, place.module, made.edges)
    _write({place.tables: made.module, place.tests: made.tests}, force=given.force)
    sys.stdout.write(f"{len(made.edges)} tables agree with their functions on {made.states:,} states\n")
    sys.stdout.writelines(edit.difference(place.graph.name))
    sys.stdout.writelines(f"to be written by hand in {place.graph.name}: {line}\n" for line in edit.by_hand)
    if given.write:
        _write_edges(given, place, edit, decided_by)
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
    # As their text is, whichever ends of lines a checkout gives them.
    there = {path: path.read_bytes().replace(b"\r\n", b"\n") for path in files if path.exists()}
    others = [path.name for path, text in there.items() if text != files[path].encode()]
    if others and not force:
        raise RefusedError(f"{' and '.join(others)}: there already, and not the same; --force writes over it")
    for path, text in files.items():
        same = there.get(path) == text.encode()
        if not same:
            path.write_bytes(text.encode())
        sys.stdout.write(f"{path.name} is as it was\n" if same else f"wrote {path.name}\n")


def _decided_by(definitions: Iterable[HostedDefinition]) -> dict[str, str]:
    """Returns what decides each conditional edge of graphs, by the names of their decisions."""
    return {branch.router: _said(branch) for each in definitions for branch in each.lifted.branches}


def _said(branch: PathBranch) -> str:
    function = branch.function
    if isinstance(function, Router):
        return _as_table(function.facts_type.__module__, function.name)
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__} to {[*(branch.branch.ends or {}).values()]}"


def _as_table(module: str, router: str) -> str:
    return f"the table {router} of {module}"


def _write_edges(given: argparse.Namespace, place: _Place, edit: Edit, before: Mapping[str, str]) -> None:
    """Writes the graph's file, and sees in another process that these edges are tables then, and all others as before.

    Raises RefusedError where they are not, with the file as it was.
    """
    if not edit.edges:
        return
    meant = {**before, **{each.router: _as_table(place.module, each.router) for each in edit.edges}}
    said = "it could not be seen what would come of it"
    place.graph.write_bytes(edit.after)
    try:
        said = _other_than(meant, given)
    finally:
        if said:
            place.graph.write_bytes(edit.before)
    if said:
        raise RefusedError(f"{place.graph.name} is as it was: with its edges written so, {said}")
    sys.stdout.write(f"wrote {place.graph.name}\n")


def _other_than(meant: Mapping[str, str], given: argparse.Namespace) -> str:
    """Says which edges of a folder's graphs are decided otherwise than is meant; empty where none is."""
    command = (sys.executable, "-P", "-m", MODULE, "--edges", "--agents", str(given.agents), "--", given.agent)
    seen = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    if seen.returncode or not seen.stdout.strip():
        return seen.stderr.strip()[-500:] or f"it ends with status {seen.returncode}"
    found = json.loads(seen.stdout.strip().splitlines()[-1])
    others = sorted(each for each in meant.keys() | found.keys() if meant.get(each) != found.get(each))
    return "; ".join(f"{each} would be decided by {found.get(each, 'nothing')}" for each in others)


def main(arguments: Sequence[str]) -> int:
    """Writes a graph's tables; returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Writes lifted tables into code.")
    parser.add_argument("agent", metavar="AGENT")
    parser.add_argument("--agents", type=Path, default=Path(), metavar="FOLDER", help="folder with a langgraph.json")
    parser.add_argument("--module", default="", metavar="NAME", help="module to write beside the graph's")
    parser.add_argument("--write", action="store_true", help="put the tables at the graph's edges, too")
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    parser.add_argument("--states", type=int, default=10_000, help="states to hold each table against")
    parser.add_argument("--edges", action="store_true", help="say only what decides each edge of the folder's graphs")
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
