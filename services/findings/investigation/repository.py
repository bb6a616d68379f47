"""The repository on this machine: which commit, which files, and what they say there."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from services.findings.errors import BadRepository
from services.findings.investigation.git import Checkout, find_checkout

MAX_FILE_BYTES = 2_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Modes of what has lines of its own: no link, no submodule.
_REGULAR = b"100"
_URL = re.compile(r"[a-z+]+://|[^/@]+@[^/:]+:")


@dataclass(frozen=True)
class SourceCode:
    """A repository at a commit; `files` is empty when it is not on this machine."""

    repository: str
    commit: str
    files: frozenset[str] = field(default_factory=frozenset, repr=False)

    @property
    def uri(self) -> str:
        """Where it is, as a log names it: a folder of this machine only by its name."""
        return self.repository if _URL.match(self.repository) else quote(Path(self.repository).name)

    @property
    def is_local(self) -> bool:
        """Whether its files can be read here."""
        return bool(self.files)

    async def lines(self, path: str) -> list[str]:
        """Returns the lines of a file at the commit; none when it can't be had, is too large, or binary."""
        if path not in self.files:
            return []
        checkout = find_checkout(Path(self.repository))
        try:
            size = await checkout.git("cat-file", "-s", f"{self.commit}:{path}")
            if int(size) > MAX_FILE_BYTES:
                return []
            content = await checkout.git("cat-file", "blob", f"{self.commit}:{path}")
        except BadRepository:
            # A partial clone lacks some files, and a name need not be UTF-8. One of them is no reason to end a batch.
            return []
        return [] if b"\0" in content else content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")


async def open_source(repository: str, commit: str, analysed: Collection[str] = ()) -> SourceCode:
    """Finds a repository and the commit to look at: the one that is named, else the one that was analysed, else HEAD.

    analysed: commits that a log says it is of. Raises BadRepository, also when the log is of another than is named.
    """
    if _URL.match(repository):
        named = commit or (next(iter(analysed)) if len(analysed) == 1 else "")
        if not _COMMIT.fullmatch(named):
            raise BadRepository(
                "a repository by URL needs --commit with all 40 digits", hint="`git ls-remote URL` lists commits"
            )
        if analysed and named not in analysed:
            raise _other_commit(analysed, named)
        return SourceCode(repository, named)
    if not _is_directory(repository):
        raise BadRepository(f"there is no directory {repository}", hint="name a git repository: --repo")
    checkout = find_checkout(Path(repository))
    resolved = await _commit_of(checkout, commit, analysed)
    listed = await checkout.git("ls-tree", "-r", "-z", "--full-tree", resolved)
    entries = (entry.partition(b"\t") for entry in listed.split(b"\0") if entry)
    files = frozenset(name.decode("utf-8", "replace") for facts, _, name in entries if facts.startswith(_REGULAR))
    return SourceCode(str(checkout.top), resolved, files)


async def _commit_of(checkout: Checkout, commit: str, analysed: Collection[str]) -> str:
    known = {resolved for each in analysed if (resolved := await _resolved_or_none(checkout, each))}
    if commit:
        resolved = await _resolved(checkout, commit)
        if known and resolved not in known:
            raise _other_commit(known, resolved)
        return resolved
    if len(known) > 1:
        raise BadRepository(
            f"the runs of the log are of {len(known)} commits",
            hint="give the runs of each commit as a log of their own",
        )
    if analysed and not known:
        raise BadRepository(
            f"the log is of commit {next(iter(analysed))}, which this repository does not have",
            hint="fetch that commit, or name the one with the same code: --commit",
        )
    return known.pop() if known else await _resolved(checkout, "HEAD")


async def _resolved(checkout: Checkout, revision: str) -> str:
    wanted = f"{revision}^{{commit}}"
    return (await checkout.git("rev-parse", "--verify", "--quiet", "--end-of-options", wanted)).decode().strip()


async def _resolved_or_none(checkout: Checkout, revision: str) -> str | None:
    try:
        return await _resolved(checkout, revision)
    except BadRepository:
        return None


def _other_commit(analysed: Collection[str], named: str) -> BadRepository:
    return BadRepository(
        f"the log is of commit {next(iter(analysed))[:12]}, and --commit names {named[:12]}",
        hint="leave --commit out, or analyse that commit",
    )


def check_readable(source: SourceCode, roots: Sequence[str] | None) -> None:
    """Raises BadRepository when a local platform may not read a repository; None: what it may is not known."""
    if roots is None or not source.is_local:
        return
    place = Path(source.repository).resolve()
    if not any(place.is_relative_to(root) for root in roots):
        raise BadRepository(
            f"the platform of `signalbox up` may not read {place}", hint=f"start it with `--code-root {place}`"
        )


def _is_directory(path: str) -> bool:
    return Path(path).is_dir()
