"""Where code comes from: which repositories may be read, and how they are named.

A repository is an absolute path under an allowed folder, or a URL under an allowed prefix. Everything else is refused
by default: `file://`, `ext::`, `ssh://`, `host:path`, names that look like options, credentials in a URL.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from services.code_executor.errors import SourceRefused
from services.code_executor.git import COMMIT
from services.kit.git import common_dir_of, git_dir_of

MAX_ADDRESS_LENGTH = 2048
_ALTERNATES_DEPTH = 5
_ALTERNATES_BYTES = 64 * 1024
_PORTS = {"https": 443, "http": 80, "git": 9418}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True)
class Source:
    """A repository that may be read. `objects` is its object folder when it is local; else `transport` fetches it.

    folders: its object folder and those it borrows from. roots: where all that they lead to must be.
    """

    address: str
    transport: str = "none"
    objects: Path | None = None
    folders: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()

    @property
    def key(self) -> str:
        """A name for the cache."""
        return hashlib.sha256(self.address.encode()).hexdigest()[:32]


def check_links(source: Source) -> None:
    """Looks at every entry of a local repository's object folders; blocks. Raises SourceRefused when one leads out."""
    for place in source.folders:
        for folder, inner, names in os.walk(place):
            for name in (*inner, *names):
                path = Path(folder, name)
                if path.is_symlink():
                    _inside(path, source.roots)


def check_commit(commit: str) -> str:
    """Returns a full commit id. Raises SourceRefused."""
    if not COMMIT.fullmatch(commit):
        raise SourceRefused(
            "commit_invalid",
            "the commit must be a full id of 40 lower-case hexadecimal digits, not a branch or tag name",
        )
    return commit


class SourcePolicy:
    """The allow-list of repositories: folders for local ones, URL prefixes for others."""

    def __init__(self, roots: Sequence[Path], prefixes: Sequence[str]) -> None:
        self._roots = tuple(Path(os.path.realpath(root)) for root in roots)
        self._prefixes = [_split(prefix) for prefix in prefixes]

    async def admit(self, repository: str) -> Source:
        """Returns the repository that a name stands for; looks at the disk when it is local. Raises SourceRefused."""
        if not 0 < len(repository) <= MAX_ADDRESS_LENGTH or not repository.isprintable():
            raise SourceRefused("source_invalid", "the repository's name is empty, too long or not printable")
        if repository.startswith("/"):
            return await asyncio.to_thread(self._admit_path, repository)
        if _URL.match(repository):
            return self._admit_url(repository)
        raise SourceRefused(
            "source_invalid", "the repository must be an absolute path or a URL such as https://host/team/project"
        )

    def _admit_url(self, address: str) -> Source:
        url = _split(address)
        for allowed in self._prefixes:
            if _origin(url) == _origin(allowed) and unquote(url.path).startswith(unquote(allowed.path)):
                return Source(address=address, transport=url.scheme)
        raise SourceRefused("source_not_allowed", "this executor may not fetch from that URL")

    def _admit_path(self, address: str) -> Source:
        work_tree = self._inside(Path(address))
        git_dir = self._inside(git_dir_of(work_tree))
        objects = self._inside(self._inside(common_dir_of(git_dir)) / "objects")
        if not objects.is_dir():
            raise SourceRefused("source_invalid", "there is no git repository at that path")
        folders = (objects, *self._borrowed(objects, _ALTERNATES_DEPTH))
        return Source(address=str(work_tree), objects=objects, folders=folders, roots=self._roots)

    def _inside(self, path: Path) -> Path:
        return _inside(path, self._roots)

    def _borrowed(self, objects: Path, depth: int) -> Iterator[Path]:
        # A repository can borrow objects from any other on the disk: those must be allowed too.
        if depth == 0:
            raise SourceRefused("source_not_allowed", "the repository borrows objects through too many others")
        for place in _alternates(objects):
            inside = self._inside(place)
            yield inside
            yield from self._borrowed(inside, depth - 1)


def _inside(path: Path, roots: Sequence[Path]) -> Path:
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(root) for root in roots):
        raise SourceRefused("source_not_allowed", "this executor may not read repositories at that path")
    return real


def _alternates(objects: Path) -> Iterator[Path]:
    """Yields where a repository borrows objects, line by line as git reads the file. Raises SourceRefused."""
    path = objects / "info" / "alternates"
    if not path.is_file():
        return
    with path.open("rb") as file:
        content = file.read(_ALTERNATES_BYTES + 1)
    if len(content) > _ALTERNATES_BYTES:
        raise SourceRefused("source_not_allowed", "the repository's list of others to borrow objects from is too long")
    for line in content.split(b"\n"):
        if line.startswith(b'"'):
            # git reads C's escapes there; nobody needs them for a path that this executor may read.
            raise SourceRefused("source_not_allowed", "the repository borrows objects from a place in quotes")
        if line and not line.startswith(b"#"):
            yield objects / os.fsdecode(line)


def _split(address: str) -> SplitResult:
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as error:
        raise SourceRefused("source_invalid", "the repository's URL cannot be read") from error
    if url.scheme not in _PORTS:
        raise SourceRefused("source_not_allowed", "repositories are fetched over https, http or git, nothing else")
    if "@" in url.netloc:
        raise SourceRefused("source_invalid", "the repository's URL must not hold a user name or password")
    host = url.netloc.removesuffix(f":{port}") if port is not None else url.netloc
    if not _HOST.fullmatch(host):
        raise SourceRefused("source_invalid", "the repository's URL has no proper host name")
    if "?" in address or "#" in address or not address.isascii() or not _is_plain(url.path):
        raise SourceRefused(
            "source_invalid", "the repository's URL must have a plain path: no query, fragment, '..', '//' or backslash"
        )
    return url


def _is_plain(path: str) -> bool:
    decoded = unquote(path)
    segments = decoded.removeprefix("/").removesuffix("/").split("/")
    is_same_depth = decoded.count("/") == path.count("/")
    return (
        is_same_depth
        and decoded.isprintable()
        and not any(mark in decoded for mark in ("\\", "%", "//"))
        and not any(segment in (".", "..") or segment.startswith("-") for segment in segments)
    )


def _origin(url: SplitResult) -> tuple[str, str, int]:
    return url.scheme, (url.hostname or "").lower(), url.port or _PORTS[url.scheme]
