"""From the URIs of a log to paths in the repository."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from services.cli.sarif.log import ArtifactLocation, Run

MAX_BASES = 20
_DRIVE = re.compile(r"/?[A-Za-z]:/")


class RepositoryPaths:
    """Paths as the repository spells them.

    root: where the analysed copy was, when it is known. files: the repository's files, when they are known; with them,
    a path of another machine (`/home/ci/build/src/app.py`) is found by its longest ending that names a file, and one
    within a subdirectory (`app.py`) by the only file that ends so.
    """

    def __init__(self, *, root: str = "", files: Collection[str] = ()) -> None:
        self._root = root.rstrip("/")
        self._files = frozenset(files)
        self._by_name: dict[str, list[str]] = {}
        for path in self._files:
            self._by_name.setdefault(PurePosixPath(path).name, []).append(path)

    def of(self, location: ArtifactLocation, run: Run) -> str:
        """Returns the path of an artifact relative to the repository's root; empty when the log names none."""
        if not location.uri and 0 <= location.index < len(run.artifacts):
            location = run.artifacts[location.index].location
        if not location.uri:
            return ""
        return self._relative(_absolute(location, run.original_uri_base_ids))

    def _relative(self, path: str) -> str:
        if self._root and path.startswith(self._root + "/"):
            path = path[len(self._root) + 1 :]
        path = _DRIVE.sub("/", path, count=1) if _DRIVE.match(path) else path
        parts = [part for part in PurePosixPath(path).parts if part != "/"]
        plain = "/".join(_without_dots(parts))
        if not self._files or plain in self._files:
            return plain
        endings = ("/".join(parts[start:]) for start in range(1, len(parts)))
        return next((ending for ending in endings if ending in self._files), "") or self._beneath(plain)

    def _beneath(self, plain: str) -> str:
        """Returns the one file whose path ends so, for an analyser that ran in a subdirectory; else the path itself."""
        named = self._by_name.get(PurePosixPath(plain).name, ())
        found = [path for path in named if path.endswith("/" + plain)]
        return found[0] if len(found) == 1 else plain


def _absolute(location: ArtifactLocation, bases: Mapping[str, ArtifactLocation]) -> str:
    path, seen = _path_of(location.uri), 0
    while location.uri_base_id and not path.startswith("/") and seen < MAX_BASES:
        base = bases.get(location.uri_base_id)
        if base is None or not base.uri:
            break
        location, seen = base, seen + 1
        path = f"{_path_of(base.uri).rstrip('/')}/{path}"
    return path


def _path_of(uri: str) -> str:
    # A URI has no backslash; tools that write Windows paths as they are mean a slash.
    uri = uri.replace("\\", "/")
    if re.match(r"[A-Za-z]:/", uri):
        return unquote(uri)
    return unquote(urlsplit(uri).path)


def _without_dots(parts: list[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept:
            kept.pop()
        elif part not in (".", ".."):
            kept.append(part)
    return kept
