"""What is where in a commit: folders listed and files found by name. Nothing here touches the disk."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from services.code_executor.manifest import DIRECTORY, Entry
from services.code_executor.snapshots import Snapshot

_WILDCARDS = re.compile(r"[*?\[]")
_MAX_GLOB_PARTS = 32
_NOT_CLOSE = 4


def list_entries(snapshot: Snapshot, path: str, depth: int) -> Iterator[tuple[str, str, int, str]]:
    """Yields path, kind, size and remark of what a folder holds, folders first, down to a depth."""
    children = snapshot.directories.children(path)
    for name, entry in sorted(children.items(), key=lambda item: (item[1] is not None, item[0])):
        if entry is not None:
            yield entry.path, entry.kind, entry.size_bytes, remark(entry)
            continue
        inner = f"{path}/{name}" if path else name
        yield inner, DIRECTORY, len(snapshot.directories.children(inner)), ""
        if depth > 1:
            yield from list_entries(snapshot, inner, depth - 1)


def remark(entry: Entry) -> str:
    """Returns what is special about an entry, in words."""
    if entry.target:
        return f"link to {entry.target}"
    return entry.omitted.replace("_", " ")


def find_entries(snapshot: Snapshot, name: str, path: str) -> list[Entry]:
    """Returns the entries below a folder whose names match, the closest matches first."""
    prefix = path + "/" if path else ""
    entries = (entry for entry in snapshot.entries.values() if entry.path.startswith(prefix))
    if _WILDCARDS.search(name):
        return sorted((e for e in entries if matches_glob(e.path.removeprefix(prefix), name)), key=lambda e: e.path)
    wanted = name.casefold().strip("/")
    found = [(_closeness(entry.path.casefold(), wanted), entry) for entry in entries]
    found.sort(key=lambda item: (item[0], item[1].path))
    return [entry for closeness, entry in found if closeness < _NOT_CLOSE]


def matches_glob(path: str, glob: str) -> bool:
    """Tells whether a path matches: `*` stays within a folder, `**` spans them; without a slash the name is matched."""
    parts = glob.strip("/").split("/")
    if len(parts) == 1:
        return _is_like(path.rpartition("/")[2], parts[0])
    return len(parts) <= _MAX_GLOB_PARTS and _parts_match(path.split("/"), parts)


def _parts_match(path: Sequence[str], glob: Sequence[str]) -> bool:
    """Matches part by part, keeping every position that fits so far: no backtracking, so no blow-up."""
    positions = {0}
    for part in glob:
        if part == "**":
            positions = set(range(min(positions, default=len(path) + 1), len(path) + 1))
        else:
            positions = {at + 1 for at in positions if at < len(path) and _is_like(path[at], part)}
    return len(path) in positions


def _is_like(name: str, glob: str) -> bool:
    return _compiled(glob).match(name) is not None


@lru_cache(maxsize=256)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))


def _closeness(path: str, wanted: str) -> int:
    if path == wanted:
        return 0
    if path.endswith("/" + wanted):
        return 1
    if wanted in path.rpartition("/")[2]:
        return 2
    return 3 if wanted in path else _NOT_CLOSE
