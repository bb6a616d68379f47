"""From the URIs of a log to paths in the repository."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from services.findings.sarif.log import ArtifactLocation, Run

MAX_BASES = 20
# Folders of what is installed beside a project, and of what comes with the system.
_INSTALLED = frozenset({"site-packages", "dist-packages", "node_modules", "lib", "lib64", "include"})
_DRIVE = re.compile(r"/?[A-Za-z]:/")


class RepositoryPaths:
    """Paths as the repository spells them.

    root: where the analysed copy was, when it is known. files: the repository's files, when they are known. With them,
    the copy's root on another machine (`/home/ci/build`), or the subdirectory that the analyser ran in, is what most
    results of a run agree on. A path elsewhere stays as it is, and is not a file of the repository, whatever its name.
    """

    def __init__(self, *, root: str = "", files: Collection[str] = ()) -> None:
        self._root = root.rstrip("/")
        self._files = frozenset(files)
        self._by_name: dict[str, list[str]] = {}
        for path in self._files:
            self._by_name.setdefault(PurePosixPath(path).name, []).append(path)
        self._depth = max((path.count("/") for path in self._files), default=0)
        # By identity, with the run, so that no other takes its place.
        self._copies: dict[int, tuple[Run, tuple[str, str]]] = {}

    def of(self, location: ArtifactLocation, run: Run) -> str:
        """Returns the path of an artifact relative to the repository's root; empty when the log names none."""
        path = _named(location, run)
        if not path:
            return ""
        plain = self._plain(path)
        if not self._files or plain in self._files:
            return plain
        copy_root, folder = self._copy_of(run)
        if path.startswith("/"):
            return self._beneath_root(path, copy_root) or plain
        inside = f"{folder}/{plain}" if folder else plain
        return inside if inside in self._files else plain

    def has(self, path: str) -> bool:
        """Whether a path is one of the repository's files, as far as those are known."""
        return path in self._files if self._files else bool(path) and ".." not in PurePosixPath(path).parts

    def _plain(self, path: str) -> str:
        if self._root and path.startswith(self._root + "/"):
            path = path[len(self._root) + 1 :]
        return "/".join(_without_dots([part for part in PurePosixPath(path).parts if part != "/"]))

    def _beneath_root(self, path: str, copy_root: str) -> str:
        under = path[len(copy_root) + 1 :] if copy_root and path.startswith(copy_root + "/") else ""
        return under if under in self._files else ""

    def _copy_of(self, run: Run) -> tuple[str, str]:
        """Returns the root of the analysed copy and the folder the analyser ran in, as most results have it."""
        if id(run) not in self._copies:
            self._copies[id(run)] = run, self._agreed(run)
        return self._copies[id(run)][1]

    def _agreed(self, run: Run) -> tuple[str, str]:
        roots, folders, at_root = Counter[str](), Counter[str](), False
        for path, count in _counted(run).items():
            if path.startswith("/"):
                roots.update(dict.fromkeys(self._roots_of(path), count))
            elif path:
                plain = self._plain(path)
                at_root = at_root or plain in self._files
                named = self._by_name.get(PurePosixPath(plain).name, ())
                folders.update({file[: -len(plain) - 1]: count for file in named if file.endswith("/" + plain)})
        # The longest ending first: the shortest root.
        root = min(roots, key=lambda one: (-roots[one], len(one)), default="")
        most = max(folders.values(), default=0)
        best = [folder for folder, count in folders.items() if count == most]
        return root, best[0] if len(best) == 1 and not at_root else ""

    def _roots_of(self, path: str) -> Iterator[str]:
        """Yields where a copy of the repository may stand so that a path is one of its files."""
        parts = path.strip("/").split("/")
        for start in range(max(1, len(parts) - 1 - self._depth), len(parts)):
            before = parts[:start]
            if "/".join(parts[start:]) in self._files and not (_INSTALLED & set(before)):
                yield "/" + "/".join(before)


def _counted(run: Run) -> Counter[str]:
    """Returns the paths that a run's results are at, each with how many are there."""
    places = (result.locations[0].physical_location for result in run.results if result.locations)
    return Counter(_named(place.artifact_location, run) for place in places if place)


def _named(location: ArtifactLocation, run: Run) -> str:
    """Returns the path that a log names, with slashes and without a drive; absolute ones begin with one."""
    if not location.uri and 0 <= location.index < len(run.artifacts):
        location = run.artifacts[location.index].location
    if not location.uri:
        return ""
    path = _absolute(location, run.original_uri_base_ids)
    return _DRIVE.sub("/", path, count=1) if _DRIVE.match(path) else path


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
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:  # a bracket where a host would stand: a path that was written as it is
        return unquote(uri)


def _without_dots(parts: list[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part != ".":
            # What leads out of the repository stays out of it.
            kept.append(part)
    return kept
