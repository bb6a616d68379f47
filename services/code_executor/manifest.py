"""What a commit holds: every file, symbolic link and submodule by its path, kept beside the snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import orjson

FILE, SYMLINK, SUBMODULE, DIRECTORY = "file", "symlink", "submodule", "directory"

# Why a file is listed but not kept.
TOO_LARGE, UNUSABLE_NAME, TOO_DEEP, BINARY = "too_large", "unusable_name", "too_deep", "binary"


@dataclass(frozen=True)
class Entry:
    """One path of a commit.

    path: as shown and asked for; bytes of a name that are not UTF-8 stand as `\\xNN`. raw: the name's own bytes.
    omitted: why the snapshot does not hold the content, or empty. target: where a symbolic link points.
    """

    path: str
    raw: bytes
    kind: str
    size_bytes: int
    blob: str
    omitted: str = ""
    target: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def shown(raw: bytes) -> str:
    """Returns a name's bytes as text."""
    return raw.decode("utf-8", "backslashreplace")


def new_folders(before: bytes, raw: bytes) -> int:
    """Returns how many folders lead to a path and not to the one that git lists before it."""
    if before.startswith(raw[: raw.rfind(b"/") + 1]):
        return 0
    known, folders = before.split(b"/")[:-1], raw.split(b"/")[:-1]
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(known, folders, strict=False)))
    return len(folders) - shared


def write_manifest(path: Path, entries: Iterable[Entry]) -> None:
    """Writes the entries of a commit, sorted by path."""
    rows = [
        [e.path, e.raw.hex() if e.raw != e.path.encode() else "", e.kind, e.size_bytes, e.blob, e.omitted, e.target]
        for e in sorted(entries, key=lambda entry: entry.path)
    ]
    path.write_bytes(orjson.dumps(rows))


def read_manifest(path: Path) -> dict[str, Entry]:
    """Reads the entries of a commit, by path."""
    rows = orjson.loads(path.read_bytes())
    return {row[0]: Entry(row[0], bytes.fromhex(row[1]) if row[1] else row[0].encode(), *row[2:]) for row in rows}


class Directories:
    """The folders of a commit and what is in each."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._children: dict[str, dict[str, Entry | None]] = {"": {}}
        for entry in entries:
            self._add(entry)

    def __contains__(self, path: str) -> bool:
        return path in self._children

    def children(self, path: str) -> dict[str, Entry | None]:
        """Returns a folder's entries by name; None stands for a folder."""
        return self._children[path]

    def _add(self, entry: Entry) -> None:
        child: Entry | None = entry
        path = entry.path
        while True:
            parent, _, name = path.rpartition("/")
            known = parent in self._children
            self._children.setdefault(parent, {}).setdefault(name, child)
            if known:
                return
            path, child = parent, None


def raw_path(root: Path, raw: bytes) -> bytes:
    """Returns where a name's file lies below a folder."""
    return os.path.join(os.fsencode(root), raw)  # noqa: PTH118 - names need not be text
