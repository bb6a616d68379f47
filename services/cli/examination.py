"""What `signalbox doctor` looks at on this machine and at the gateway, and what it says of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from signalbox.v1 import agents_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.kit.wire.input_schema import agents_known
from services.local.falkordb import missing_for_falkordb

PACKAGE: Final = "signalbox"
EXTRA: Final = "local"
# Less, and Postgres and logs soon have no room.
LEAST_FREE_BYTES: Final = 1 << 30
# Tokens are good from a moment on, and to one: as much as the gateway forgives.
MOST_CLOCK_DIFFERENCE_S: Final = 5.0


class Found(StrEnum):
    """What came of a look."""

    WELL = "well"
    WRONG = "wrong"
    NOT_LOOKED_AT = "not looked at"


@dataclass(frozen=True)
class Examination:
    """One thing that was looked at: what was seen, and the command that mends it where it is wrong."""

    name: str
    found: Found
    seen: str
    mend: str = ""


async def examine_platform(connect: Callable[[], Connection]) -> Examination:
    """Asks the gateway what it offers; names agents of it that this command is too old for."""
    try:
        connection = connect()
        async with open_gateway(connection) as gateway:
            answer = await gateway.call(gateway.agents.ListAgents, agents_pb2.ListAgentsRequest())
    except CliError as error:
        return Examination("platform", Found.WRONG, error.message, error.hint)
    unknown = [
        each.name for each in answer.agents if not each.HasField("input_schema") and each.name not in agents_known()
    ]
    seen = f"{connection.address} offers {len(answer.agents)} agents"
    if unknown:
        newer = f"{seen}; this command is older, and does not know {', '.join(unknown)}"
        return Examination("platform", Found.WRONG, newer, "install the release of the platform")
    return Examination("platform", Found.WELL, seen)


def examine_packages() -> Iterator[Examination]:
    """Compares what is installed with what this release asks for; an extra may be missing."""
    try:
        from packaging.requirements import Requirement  # which comes with other packages, and not with all extras
    except ImportError:
        yield Examination("packages", Found.NOT_LOOKED_AT, "the package `packaging` is not installed here")
        return
    wrong = []
    for each in map(Requirement, requires(PACKAGE) or ()):
        is_needed = each.marker is None or each.marker.evaluate({"extra": ""})
        if not is_needed and each.marker and not each.marker.evaluate({"extra": EXTRA}):
            continue
        try:
            installed = version(each.name)
        except PackageNotFoundError:
            wrong += [f"{each.name} is missing"] if is_needed else []
            continue
        if not each.specifier.contains(installed, prereleases=True):
            wrong.append(f"{each.name} is {installed}, wanted is {each.specifier}")
    name = f"{PACKAGE} {version(PACKAGE)}, Python {'.'.join(map(str, sys.version_info[:3]))}"
    if wrong:
        yield Examination("packages", Found.WRONG, f"{name}: {'; '.join(wrong)}", "make run, or uv sync --extra local")
    else:
        yield Examination("packages", Found.WELL, f"{name}, and all that they need")


def examine_disk(directory: Path) -> Examination:
    """Says how much room there is where a platform of this machine keeps its files."""
    place = next(each for each in (directory, *directory.parents) if each.exists())
    free = shutil.disk_usage(place).free
    seen = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free < LEAST_FREE_BYTES:
        mend = "make room there, or set SIGNALBOX_RUNTIME_DIR, and `up --data`, to another disk"
        return Examination("disk", Found.WRONG, seen, mend)
    return Examination("disk", Found.WELL, seen)


def examine_graph_database() -> Examination:
    """Says whether the graph database of `signalbox up` can run here."""
    if missing := missing_for_falkordb():
        return Examination("graph database", Found.WRONG, missing, "apt-get install libgomp1, then signalbox up")
    return Examination("graph database", Found.WELL, "FalkorDB can run here")


def examine_clock(ahead_s: Mapping[str, float]) -> Examination:
    """Compares this machine's clock with those of others, by how many seconds theirs are ahead."""
    if not ahead_s:
        return Examination("clock", Found.NOT_LOOKED_AT, "nobody to compare it with: no database or model is named")
    place = max(ahead_s, key=lambda each: abs(ahead_s[each]))
    seen = f"{place} is {abs(ahead_s[place]):.1f} s {'ahead' if ahead_s[place] > 0 else 'behind'}"
    if abs(ahead_s[place]) > MOST_CLOCK_DIFFERENCE_S:
        return Examination("clock", Found.WRONG, seen, "timedatectl set-ntp true, here or there")
    return Examination("clock", Found.WELL, seen)
