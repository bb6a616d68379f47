"""Shows what a folder's path functions were lifted to: `python -m services.runtime.commands.lift FOLDER`.

Each conditional edge has its table in words, or the reason why it has none. Status 2 where the folder can't be loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from signalbox_routing.table import END, Choice, Router, Rule
from signalbox_routing.words import in_words

from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.hosted.loading import load_graphs


async def definitions_of(folder: Path, stack: AsyncExitStack) -> list[HostedDefinition]:
    """Returns the graphs of a folder. Raises InvalidAgentsError."""
    return [HostedDefinition(each) for each in await load_graphs([folder], stack, packages=False)]


async def _said(folder: Path) -> str:
    async with AsyncExitStack() as stack:
        lines, lifted, tables, all_of_them = list[str](), 0, 0, 0
        for definition in await definitions_of(folder, stack):
            lines += in_lines(definition)
            lifted += len(definition.lifted.routers)
            tables += len(definition.lifted.given)
            all_of_them += len(definition.lifted.branches)
    told = f", {tables} are tables already" if tables else ""
    return "\n".join([*lines, f"{lifted} of {all_of_them} path functions lifted{told}", ""])


def in_lines(definition: HostedDefinition) -> Iterator[str]:
    """Yields what became of each path function of a graph, line by line."""
    reasons = {each.router: each.reason for each in definition.lifted.others}
    for branch in definition.lifted.branches:
        place = definition.place_of(branch)
        table = definition.lifted.table(branch.router)
        yield f"{branch.router}  {place}".rstrip() + ("" if table else f"\n  not lifted: {reasons[branch.router]}")
        if table:
            yield from rules_in_lines(table)


def rules_in_lines(router: Router[Any, Any]) -> Iterator[str]:
    """Yields a table's rules in words, in columns."""
    rows = [(rule.name, _ways(rule), in_words(rule.when, router.policy)) for rule in router.rules]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, to, when in rows:
        yield f"  {name:{widths[0]}}  → {to:{widths[1]}}  {when}"


def _ways(rule: Rule) -> str:
    if isinstance(rule.to, Choice):
        return " | ".join(dict.fromkeys(map(_place, rule.destinations)))
    return _place(rule.to)


def _place(destination: str) -> str:
    return "the end" if destination == END else destination


def main(arguments: Sequence[str]) -> int:
    """Shows the tables of a folder's graphs; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m services.runtime.commands.lift", description="Shows tables lifted from path functions."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder with a langgraph.json")
    try:
        sys.stdout.write(asyncio.run(_said(parser.parse_args(arguments).folder)))
    except InvalidAgentsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
