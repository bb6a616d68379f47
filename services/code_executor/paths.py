"""The jail: a path is a key into what the commit holds, never a place on the disk.

Whatever is asked for is looked up in the commit's own list of paths. What is not there is refused, with the reason
that a reader of the logs would want: an attempt to leave the repository, or an honest mistake.
"""

from __future__ import annotations

import json
import re
import unicodedata

from services.code_executor.errors import PathRefused
from services.code_executor.manifest import FILE, SUBMODULE, SYMLINK, Entry
from services.code_executor.snapshots import Snapshot

MAX_PATH_BYTES = 4096
_SUGGESTIONS = 3
_ABSOLUTE = re.compile(r"/|\\|~|[A-Za-z]:[\\/]|[A-Za-z][A-Za-z0-9+.-]+:/|file:", re.IGNORECASE)
_ENCODED = re.compile(r"%u?[0-9A-Fa-f]{2}|&#|\\[xu][0-9A-Fa-f]{2}|\u00c0[\u0080-\u00ff]")
_GIT_FOLDER = re.compile(r"(\.git|git~\d+)([ .]*|:.*)", re.IGNORECASE)
# Characters that look like a slash, a backslash or dots.
_LOOKALIKES = frozenset(
    "\u2044\u2215\u29f8\u2571\u27cb\uff0f\u29f5\u29f9\u2216\ufe68\uff3c\u2024\u2025\u2026\uff0e\ufe52\u3002\uff61\u00b7\u0338\u01c3\u05c3"
)


def file_entry(snapshot: Snapshot, path: str) -> Entry:
    """Returns the file that a path names. Raises PathRefused."""
    found = resolve(snapshot, path)
    if found == "":
        raise PathRefused("path_empty", "name a file of the repository, such as src/main.py")
    entry = snapshot.entries.get(found)
    if entry is None:
        raise PathRefused("path_is_directory", f"{show_path(found)} is a folder; use list_directory to see its files")
    if entry.kind == SYMLINK:
        raise _link(entry)
    if entry.kind == SUBMODULE:
        raise _submodule(entry)
    return entry


def directory(snapshot: Snapshot, path: str) -> str:
    """Returns the folder that a path names, "" for the repository itself. Raises PathRefused."""
    found = resolve(snapshot, path)
    entry = snapshot.entries.get(found)
    if entry is None:
        return found
    if entry.kind == FILE:
        raise PathRefused("path_is_file", f"{show_path(found)} is a file; use read_file to see it")
    raise _link(entry) if entry.kind == SYMLINK else _submodule(entry)


def file_or_directory(snapshot: Snapshot, path: str) -> str:
    """Returns the file or folder that a path names, "" for the repository itself. Raises PathRefused."""
    found = resolve(snapshot, path)
    return file_entry(snapshot, found).path if found in snapshot.entries else found


def resolve(snapshot: Snapshot, path: str) -> str:
    """Returns the path of an entry or a folder of the commit, as the commit spells it. Raises PathRefused."""
    if len(path.encode()) > MAX_PATH_BYTES:
        raise PathRefused("path_too_long", f"the path is longer than {MAX_PATH_BYTES} bytes")
    if path in snapshot.entries or path in snapshot.directories:
        return path
    _check_form(path)
    plain = "/".join(part for part in path.split("/") if part not in ("", "."))
    if plain in snapshot.entries or plain in snapshot.directories:
        return plain
    _check_parents(snapshot, plain)
    raise PathRefused("path_not_found", f"there is no {show_path(path)} at this commit{_suggestion(snapshot, plain)}")


def show_path(path: str) -> str:
    """Returns a path fit to print: quoted when it holds characters that do not show."""
    return path if path.isprintable() else json.dumps(path)


def _check_form(path: str) -> None:
    """Refuses what is no relative path of plain characters. Raises PathRefused."""
    if any(unicodedata.category(char) == "Cc" for char in path):
        raise PathRefused("path_control", "the path holds control characters")
    if _ABSOLUTE.match(path):
        raise PathRefused("path_absolute", "the path must be relative to the repository, such as src/main.py")
    if any(char in _LOOKALIKES or unicodedata.category(char) == "Cf" for char in path):
        raise PathRefused("path_lookalike", "the path holds invisible characters or such as look like slashes or dots")
    if _ENCODED.search(path):
        raise PathRefused("path_encoded", "the path holds encoded characters; give it as it is")
    if "\\" in path:
        raise PathRefused("path_separator", "folders are separated by /, not by a backslash")
    parts = path.split("/")
    if any(part.strip() == ".." for part in parts):
        raise PathRefused("path_traversal", "the path must not hold '..'")
    if any(_GIT_FOLDER.fullmatch(part.strip()) for part in parts):
        raise PathRefused("path_git_directory", "git's own files are not part of the repository's code")


def _check_parents(snapshot: Snapshot, path: str) -> None:
    parts = path.split("/")
    for count in range(1, len(parts)):
        entry = snapshot.entries.get("/".join(parts[:count]))
        if entry is not None and entry.kind == SYMLINK:
            raise _link(entry)
        if entry is not None and entry.kind == SUBMODULE:
            raise _submodule(entry)


def _link(entry: Entry) -> PathRefused:
    target = show_path(entry.target) if entry.target else "a target that is too long to show"
    return PathRefused(
        "path_symlink",
        f"{show_path(entry.path)} is a symbolic link to {target}; links are not followed. "
        "If that is a file of this repository, ask for its own path",
    )


def _submodule(entry: Entry) -> PathRefused:
    return PathRefused(
        "path_submodule",
        f"{show_path(entry.path)} is a submodule: another repository, at its commit {entry.blob}; it is not read here",
    )


def _suggestion(snapshot: Snapshot, path: str) -> str:
    name = path.rpartition("/")[2].casefold()
    alike = [entry.path for entry in snapshot.entries.values() if entry.name.casefold() == name]
    if not alike:
        return "; find_file looks for a name"
    return "; did you mean " + ", ".join(show_path(path) for path in alike[:_SUGGESTIONS]) + "?"
