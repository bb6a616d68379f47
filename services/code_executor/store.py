"""A bounded cache of folders, shared by the processes of one machine.

An entry is a folder that appears whole, by a rename. Who uses one holds its lock shared; who builds, changes or evicts
one holds it alone. So nothing in use is ever evicted, and what a crash leaves half done is never seen.

    locks/<kind>-<key>    partial/<kind>-<key>-…    <kind>/<key>/entry.json
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from services.code_executor.errors import CacheBusy, RepositoryBroken
from services.code_executor.locks import LockTimeout, locked, try_lock, unlock
from services.code_executor.metrics import CACHE_BYTES, CACHE_EVICTIONS, CACHE_LOOKUPS
from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import detached

log = get_logger()

REPOSITORIES = "repositories"
SNAPSHOTS = "snapshots"
_KINDS = (REPOSITORIES, SNAPSHOTS)
_ENTRY = "entry.json"
_ATTEMPTS = 5
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# Fills a folder and returns its size in bytes.
Build = Callable[[Path], Awaitable[int]]


@dataclass(frozen=True)
class _Entry:
    kind: str
    key: str
    size_bytes: int
    used_at: float


class Store:
    """The cache below one folder; holds about `capacity_bytes`, and more only while more than that is in use."""

    def __init__(self, root: Path, capacity_bytes: int, *, lock_timeout_s: float = 600) -> None:
        self._root = root
        self._capacity_bytes = capacity_bytes
        self._lock_timeout_s = lock_timeout_s
        self._building: dict[tuple[str, str], asyncio.Task[None]] = {}

    def prepare(self) -> None:
        """Makes the folders and removes what crashed builds left behind."""
        for name in ("locks", "partial", *_KINDS):
            (self._root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for partial in (self._root / "partial").iterdir():
            kind, key = partial.name.split("-")[:2]
            if (held := try_lock(self._lock_path(kind, key), exclusive=True)) is not None:
                shutil.rmtree(partial, ignore_errors=True)
                unlock(held)

    async def aclose(self) -> None:
        """Stops the builds that still run."""
        tasks = list(self._building.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def use(self, kind: str, key: str, build: Build) -> AsyncIterator[Path]:
        """Yields an entry's folder, built when it is missing; it stays while the context lasts.

        Concurrent callers share one build, and a caller that goes away does not stop it.
        """
        path = self._root / kind / key
        for attempt in range(_ATTEMPTS):
            async with self._locked(kind, key, exclusive=False):
                if _touch(path):
                    CACHE_LOOKUPS.labels(kind, "miss" if attempt else "hit").inc()
                    yield path
                    return
            await self._built(kind, key, build)
        raise CacheBusy("the cache is too small for what is in use; try again")

    @asynccontextmanager
    async def change(self, kind: str, key: str, build: Build, size: Callable[[Path], int]) -> AsyncIterator[Path]:
        """Yields an entry's folder to nobody else, built when it is missing; then notes its new size.

        RepositoryBroken out of the context removes the entry: the next caller starts anew.
        """
        path = self._root / kind / key
        async with self._locked(kind, key, exclusive=True):
            if not _touch(path):
                await self._fill(kind, key, build)
            try:
                yield path
            except RepositoryBroken:
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
                raise
            finally:
                if path.is_dir():
                    _write_entry(path, size(path))
        await asyncio.to_thread(self._evict)

    async def _built(self, kind: str, key: str, build: Build) -> None:
        task = self._building.get((kind, key))
        if task is None:
            # Shared with callers who come later, and have longer.
            task = detached(self._build(kind, key, build))
            self._building[kind, key] = task
            task.add_done_callback(lambda done: self._forget(kind, key, done))
        await asyncio.shield(task)

    def _forget(self, kind: str, key: str, task: asyncio.Task[None]) -> None:
        del self._building[kind, key]
        if not task.cancelled() and (error := task.exception()):
            # Also read here because every caller may have gone away by now.
            log.info("build failed", kind=kind, key=key, error=str(error))

    async def _build(self, kind: str, key: str, build: Build) -> None:
        async with self._locked(kind, key, exclusive=True):
            if not (self._root / kind / key).is_dir():
                await self._fill(kind, key, build)
        await asyncio.to_thread(self._evict, keep=(kind, key))

    async def _fill(self, kind: str, key: str, build: Build) -> None:
        """Builds an entry aside and moves it into place; its lock is held alone."""
        for left_over in (self._root / "partial").glob(f"{kind}-{key}-*"):
            await asyncio.to_thread(shutil.rmtree, left_over, ignore_errors=True)
        partial = self._partial(kind, key)
        try:
            _write_entry(partial, await build(partial))
            partial.rename(self._root / kind / key)
        except BaseException as error:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in _FULL:
                log.warning("cache full", kind=kind, key=key, error=str(error))
                raise CacheBusy("the cache's disk is full; try again later") from error
            raise

    def _evict(self, keep: tuple[str, str] | None = None) -> None:
        """Removes entries, the least recently used first, until the rest fits; skips what is in use."""
        entries = sorted(self._entries(), key=lambda entry: entry.used_at)
        total = sum(entry.size_bytes for entry in entries)
        for entry in entries:
            if total <= self._capacity_bytes:
                break
            if (entry.kind, entry.key) != keep and self._remove(entry):
                total -= entry.size_bytes
        CACHE_BYTES.set(total)

    def _remove(self, entry: _Entry) -> bool:
        lock = self._lock_path(entry.kind, entry.key)
        held = try_lock(lock, exclusive=True)
        if held is None:
            return False
        try:
            doomed = self._partial(entry.kind, entry.key)
            path = self._root / entry.kind / entry.key
            if not path.is_dir():
                doomed.rmdir()
                return True
            path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
            lock.unlink(missing_ok=True)
        finally:
            unlock(held)
        CACHE_EVICTIONS.labels(entry.kind).inc()
        log.info("evicted", kind=entry.kind, key=entry.key, size_bytes=entry.size_bytes)
        return True

    def _entries(self) -> list[_Entry]:
        found = []
        for kind in _KINDS:
            for path in (self._root / kind).iterdir():
                try:
                    size_bytes = orjson.loads((path / _ENTRY).read_bytes())["size_bytes"]
                    found.append(_Entry(kind, path.name, size_bytes, (path / _ENTRY).stat().st_mtime))
                except FileNotFoundError:
                    continue  # evicted by another process meanwhile
        return found

    def _partial(self, kind: str, key: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{kind}-{key}-", dir=self._root / "partial"))

    def _lock_path(self, kind: str, key: str) -> Path:
        return self._root / "locks" / f"{kind}-{key}"

    @asynccontextmanager
    async def _locked(self, kind: str, key: str, *, exclusive: bool) -> AsyncIterator[None]:
        try:
            async with locked(self._lock_path(kind, key), exclusive=exclusive, timeout_s=self._lock_timeout_s):
                yield
        except LockTimeout as error:
            raise CacheBusy("another process is at this repository; try again") from error


def _write_entry(path: Path, size_bytes: int) -> None:
    (path / _ENTRY).write_bytes(orjson.dumps({"size_bytes": size_bytes}))


def _touch(path: Path) -> bool:
    try:
        os.utime(path / _ENTRY)
    except FileNotFoundError:
        return False
    return True
