"""Gets at a commit's objects: local repositories are read in place, others are fetched into the cache.

A local repository's own configuration is never read: its objects are lent to an empty repository of ours.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from services.code_executor.errors import RepositoryBroken, SourceAway, SourceFailed
from services.code_executor.git import Git, GitOutcome
from services.code_executor.limits import Limits
from services.code_executor.sources import Source, check_links
from services.code_executor.store import REPOSITORIES, Store
from services.kit.telemetry.logs import get_logger

log = get_logger()
_WATCH_S = 0.25
_QUICK_S = 30
# What git, curl and ssh say (in the C locale) when they reach no server or it breaks off, and not when it says no.
_AWAY = re.compile(
    r"could not resolve host|connect to (?:server|host)|unable to connect"
    r"|connection (?:refused|timed out|reset|was reset)|operation (?:timed out|too slow)"
    r"|network is unreachable|no route to host|(?:recv|send) failure|empty reply from"
    r"|returned error: (?:408|429|5\d\d)|early eof|unexpected disconnect|rpc failed|transfer closed|SSL_ERROR_SYSCALL",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Objects:
    """Where git finds a commit's objects."""

    git_dir: Path
    environment: dict[str, str]


class Repositories:
    """Local and fetched repositories."""

    def __init__(self, git: Git, store: Store, limits: Limits) -> None:
        self._git = git
        self._store = store
        self._limits = limits

    @asynccontextmanager
    async def objects(self, source: Source, commit: str) -> AsyncIterator[Objects]:
        """Yields the place of a commit's objects. Raises SourceRefused, and SourceFailed when it cannot be had."""
        if source.objects is not None:
            await asyncio.to_thread(check_links, source)
            lent = Objects(self._git.empty_repository, self._git.environment(objects=source.objects))
            await self._check_commit(lent, commit)
            yield lent
            return
        async with self._store.change(REPOSITORIES, source.key, self._make, _size) as path:
            mirror = Objects(path / "mirror.git", self._git.environment())
            if await self._type(mirror, commit) is None:
                await self._fetch(source, mirror.git_dir, commit)
            await self._check_commit(mirror, commit)
            yield mirror

    async def _make(self, path: Path) -> int:
        await self._git.make_repository(path / "mirror.git")
        return _size(path)

    async def _type(self, objects: Objects, commit: str) -> str | None:
        outcome = await self._git.run(
            ["cat-file", "--batch-check"],
            git_dir=objects.git_dir,
            environment=objects.environment,
            stdin=commit.encode() + b"\n",
            timeout_s=_QUICK_S,
        )
        words = outcome.stdout.decode(errors="replace").split()
        if outcome.code or not words:
            raise RepositoryBroken("repository_unreadable", "git cannot read this repository's objects", retryable=True)
        return None if words[-1] == "missing" else words[1]

    async def _check_commit(self, objects: Objects, commit: str) -> None:
        kind = await self._type(objects, commit)
        if kind is None:
            raise SourceFailed("commit_not_found", f"the repository has no commit {commit}")
        if kind != "commit":
            raise SourceFailed("commit_not_found", f"{commit} names a {kind} of this repository, not a commit")

    async def _fetch(self, source: Source, git_dir: Path, commit: str) -> None:
        """Fetches one commit alone; from servers that cannot give that, all branches and tags."""
        alone = await self._run_fetch(source, git_dir, ["--depth=1"], f"{commit}:refs/signalbox/{commit}")
        if alone.code == 0:
            return
        log.info("server gives no single commits", source=source.address, error=alone.stderr[-500:])
        whole = await self._run_fetch(
            source, git_dir, ["--prune"], "+refs/heads/*:refs/remote/heads/*", "+refs/tags/*:refs/remote/tags/*"
        )
        if whole.code:
            log.warning("fetch failed", source=source.address, error=whole.stderr[-500:])
            if _AWAY.search(whole.stderr):
                raise SourceAway("the repository's server can't be reached; try again later")
            raise SourceFailed("repository_unavailable", "the repository could not be fetched")

    async def _run_fetch(self, source: Source, git_dir: Path, options: list[str], *refspecs: str) -> GitOutcome:
        arguments = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", *options]
        running = asyncio.create_task(
            self._git.run(
                [*arguments, "--end-of-options", source.address, *refspecs],
                git_dir=git_dir,
                environment=self._git.environment(transport=source.transport),
                timeout_s=self._limits.fetch_timeout_s,
            )
        )
        try:
            while not running.done():
                await asyncio.wait([running], timeout=_WATCH_S)
                self._check_size(git_dir)
            return running.result()
        except TimeoutError as error:
            message = f"fetching took longer than {self._limits.fetch_timeout_s:g} s"
            raise SourceAway(message) from error
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            _remove_partial_packs(git_dir)

    def _check_size(self, git_dir: Path) -> None:
        if _size(git_dir) > self._limits.repository_bytes:
            raise SourceFailed(
                "repository_too_large", f"the repository is larger than {self._limits.repository_bytes} bytes"
            )


def _size(path: Path) -> int:
    """Returns the size of a folder in bytes; it may change meanwhile."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - a Path per file is slow
            except FileNotFoundError:
                continue
    return total


def _remove_partial_packs(git_dir: Path) -> None:
    for left_over in (git_dir / "objects" / "pack").glob("tmp_*"):
        left_over.unlink(missing_ok=True)
