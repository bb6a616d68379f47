"""Writes a commit's files into a folder, from git's objects.

Neither `git checkout` nor `git archive`: both obey attributes that the repository itself sets (filters, line ends,
keyword expansion, files left out). What is written here is byte for byte what was committed. Only regular files are
written: no symbolic link, no submodule, no name that could lead out of the folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from services.code_executor.binary import is_binary
from services.code_executor.errors import RepositoryBroken, SourceFailed
from services.code_executor.git import Git
from services.code_executor.git_objects import ask, check_trees, git_process, object_id, output_of
from services.code_executor.limits import Limits
from services.code_executor.manifest import (
    BINARY,
    FILE,
    SUBMODULE,
    SYMLINK,
    TOO_DEEP,
    TOO_LARGE,
    UNUSABLE_NAME,
    Entry,
    new_folders,
    raw_path,
    shown,
)
from services.code_executor.repositories import Objects

_MODES = {b"100644": FILE, b"100755": FILE, b"100664": FILE, b"120000": SYMLINK, b"160000": SUBMODULE}
_FORBIDDEN = frozenset({b"", b".", b"..", b".git"})
# Deeper folders are listed but not kept: they exist to exhaust whoever walks them.
_MAX_DEPTH = 200
_MAX_LINK_BYTES = 4096
# Of all paths together, those of folders too: they are kept in memory.
_MAX_NAMES_BYTES = 256 * 1024**2
_READ_BYTES = 256 * 1024


def materialise(git: Git, objects: Objects, commit: str, target: Path, limits: Limits) -> list[Entry]:
    """Writes the files of a commit below `target` and returns its entries; blocks. Raises SourceFailed."""
    trees: set[str] = set()
    with git_process(git, objects, ["ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit], limits) as process:
        entries = _unique(_listed(_records(output_of(process)), trees, limits))
    check_trees(git, objects, commit, trees, limits)
    wanted = [entry for entry in entries if not entry.omitted and entry.kind != SUBMODULE]
    if sum(entry.size_bytes for entry in wanted) > limits.repository_bytes:
        raise SourceFailed("repository_too_large", f"the commit holds more than {limits.repository_bytes} bytes")
    target.mkdir(mode=0o700)
    written = {entry.raw: entry for entry in entries}
    with git_process(git, objects, ["cat-file", "--batch"], limits) as process:
        writer = _Writer(target)
        for entry, content in _contents(process, wanted):
            written[entry.raw] = writer.keep(entry, content)
    return list(written.values())


def _records(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(_READ_BYTES):
        *records, rest = (rest + block).split(b"\0")
        yield from records


def _listed(records: Iterator[bytes], trees: set[str], limits: Limits) -> Iterator[Entry]:
    """Reads `git ls-tree -t -z -l`: mode, type, id and size, a tab, then the name; adds trees to a set."""
    total, names_bytes, before = 0, 0, b""
    for record in records:
        facts, _, raw = record.partition(b"\t")
        mode, kind_of_object, blob, size = facts.split()
        if kind_of_object == b"tree":
            trees.add(blob.decode())
            continue
        # Small trees, used over and over, can hold any number of folders, and these paths of any length.
        new = 1 + new_folders(before, raw)
        total, names_bytes, before = total + new, names_bytes + new * len(raw), raw
        if total > limits.repository_files or names_bytes > _MAX_NAMES_BYTES:
            raise SourceFailed(
                "repository_too_large", f"the commit holds more than {limits.repository_files} files and folders"
            )
        kind = _MODES.get(mode)
        if kind is None or not _FORBIDDEN.isdisjoint(raw.lower().split(b"/")):
            continue  # git itself makes no such entry
        if size == b"BAD":
            raise RepositoryBroken("repository_unreadable", f"the repository lacks the content of {shown(raw)!r}")
        entry = Entry(shown(raw), raw, kind, int(size) if size != b"-" else 0, blob.decode())
        yield replace(entry, omitted=_omitted(entry, limits))


def _omitted(entry: Entry, limits: Limits) -> str:
    if entry.raw.count(b"/") >= _MAX_DEPTH:
        return TOO_DEEP
    largest = _MAX_LINK_BYTES if entry.kind == SYMLINK else limits.file_bytes
    return TOO_LARGE if entry.size_bytes > largest else ""


def _unique(entries: Iterator[Entry]) -> list[Entry]:
    """Drops entries whose path another has already: git allows no such tree, a forged one may hold it."""
    return list({entry.path: entry for entry in reversed(list(entries))}.values())[::-1]


def _contents(process: subprocess.Popen[bytes], entries: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
    """Yields every entry's content, checked against its id: a forged object may hold anything, and be of any length."""
    ask(process, [entry.blob for entry in entries])
    for entry in entries:
        header = output_of(process).readline().split()
        if len(header) != 3 or header[1] != b"blob" or not header[2].isdigit() or int(header[2]) != entry.size_bytes:
            raise RepositoryBroken("repository_unreadable", f"the repository lacks the content of {entry.path!r}")
        content = output_of(process).read(entry.size_bytes + 1)[:-1]
        if object_id("blob", content) != entry.blob:
            raise RepositoryBroken("repository_unreadable", f"the content of {entry.path!r} is not what was committed")
        yield entry, content


class _Writer:
    """Writes files below a folder; nothing is ever written through a link or over another file."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: set[bytes] = {b""}

    def keep(self, entry: Entry, content: bytes) -> Entry:
        """Keeps an entry's content and returns the entry as it now stands."""
        if entry.kind == SYMLINK:
            return replace(entry, target=shown(content))
        if is_binary(content, entry.path):
            return replace(entry, omitted=BINARY)
        try:
            self._make_folder(entry.raw.rpartition(b"/")[0])
            path = raw_path(self._root, entry.raw)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
        except (FileExistsError, NotADirectoryError, IsADirectoryError, ValueError):
            return replace(entry, omitted=UNUSABLE_NAME)
        except OSError as error:
            if error.filename is not None and len(os.fsencode(error.filename)) > 255:
                return replace(entry, omitted=UNUSABLE_NAME)
            raise
        with open(descriptor, "wb", closefd=True) as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(content)
        return entry

    def _make_folder(self, raw: bytes) -> None:
        if raw in self._made:
            return
        self._make_folder(raw.rpartition(b"/")[0])
        os.mkdir(raw_path(self._root, raw), 0o700)  # noqa: PTH102 - names need not be text
        self._made.add(raw)
