"""A commit's files, as they were: read-only, and gone from nobody's hands while they are in use."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from services.code_executor.binary import binary_refusal
from services.code_executor.errors import ContentRefused
from services.code_executor.git import Git
from services.code_executor.limits import Limits
from services.code_executor.manifest import (
    BINARY,
    FILE,
    Directories,
    Entry,
    new_folders,
    raw_path,
    read_manifest,
    write_manifest,
)
from services.code_executor.materialise import materialise
from services.code_executor.metrics import SNAPSHOT_DURATION
from services.code_executor.repositories import Repositories
from services.code_executor.sources import Source, check_commit
from services.code_executor.store import SNAPSHOTS, Store

_BLOCK_BYTES = 4096
# Entries of all snapshots kept in memory, some 500 bytes each.
_ENTRIES_IN_MEMORY = 400_000


class Snapshot:
    """The files of one commit."""

    def __init__(self, key: str, commit: str, root: Path, entries: dict[str, Entry]) -> None:
        self.key = key
        self.commit = commit
        self.root = root
        self.entries = entries
        self.directories = Directories(entries.values())
        self._not_kept = [entry.path for entry in entries.values() if entry.kind == FILE and entry.omitted]

    def not_kept(self, path: str) -> int:
        """Returns how many files below a folder, or at a path, have no content here; "" stands for all."""
        return sum(not path or one == path or one.startswith(path + "/") for one in self._not_kept)

    def read(self, entry: Entry) -> bytes:
        """Reads a kept file; blocks. Raises ContentRefused when the snapshot does not hold it."""
        if entry.omitted == BINARY:
            raise ContentRefused("binary_file", binary_refusal(repr(entry.path), entry.size_bytes))
        if entry.omitted:
            raise ContentRefused(
                {"too_large": "file_too_large"}.get(entry.omitted, "file_not_kept"),
                f"{entry.path!r} ({entry.size_bytes} bytes) cannot be read: {entry.omitted.replace('_', ' ')}",
            )
        descriptor = os.open(raw_path(self.root, entry.raw), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            return file.read()


class Snapshots:
    """Makes and caches snapshots."""

    def __init__(self, git: Git, store: Store, repositories: Repositories, limits: Limits) -> None:
        self._git = git
        self._store = store
        self._repositories = repositories
        self._limits = limits
        self._loaded: OrderedDict[str, Snapshot] = OrderedDict()

    @asynccontextmanager
    async def use(self, source: Source, commit: str) -> AsyncIterator[Snapshot]:
        """Yields the snapshot of a commit, which stays on disk for as long. Raises SourceRefused, SourceFailed."""
        key = f"{source.key}.{check_commit(commit)}"

        async def build(path: Path) -> int:
            return await self._build(source, commit, path)

        async with self._store.use(SNAPSHOTS, key, build) as path:
            yield await self._load(key, commit, path)

    async def _build(self, source: Source, commit: str, path: Path) -> int:
        started = time.perf_counter()
        async with self._repositories.objects(source, commit) as objects:
            entries = await asyncio.to_thread(materialise, self._git, objects, commit, path / "tree", self._limits)
        manifest = path / "manifest.json"
        await asyncio.to_thread(write_manifest, manifest, entries)
        SNAPSHOT_DURATION.labels("local" if source.objects else "remote").observe(time.perf_counter() - started)
        return manifest.stat().st_size + _disk_bytes(entries)

    async def _load(self, key: str, commit: str, path: Path) -> Snapshot:
        snapshot = self._loaded.get(key)
        if snapshot is None:
            entries = await asyncio.to_thread(read_manifest, path / "manifest.json")
            snapshot = self._loaded[key] = Snapshot(key, commit, path / "tree", entries)
        self._loaded.move_to_end(key)
        while len(self._loaded) > 1 and sum(len(s.entries) for s in self._loaded.values()) > _ENTRIES_IN_MEMORY:
            self._loaded.popitem(last=False)
        return snapshot


def _disk_bytes(entries: Sequence[Entry]) -> int:
    """Returns the bytes that kept files and their folders take, each in whole blocks."""
    blocks, before = 0, b""
    for entry in entries:
        if not entry.omitted and entry.kind == FILE:
            blocks += -(-entry.size_bytes // _BLOCK_BYTES) + new_folders(before, entry.raw)
            before = entry.raw
    return blocks * _BLOCK_BYTES
