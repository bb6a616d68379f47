"""What the code of a folder imports by a name that other code had first: it would get that, and nobody would say so.

All folders' modules are in one process, where a name is one module. What is installed comes before what a folder has,
as with LangGraph's own server.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from services.runtime.hosted.langgraph_json import LanggraphFile

_INSTALLED = "site-packages"
# Of the runtime itself, wherever it is installed.
_OURS = "services"


def imports_of_others(file: LanggraphFile) -> list[str]:
    """Returns a sentence for each module of a folder's own that its code imports, and gets another one for."""
    roots = file.import_paths or (file.folder,)
    below = tuple(f"{root}{os.sep}" for root in roots)
    loaded = {name: place for name, module in list(sys.modules.items()) if (place := _place(module))}
    own = {place for place in loaded.values() if place.startswith(below)}
    taken = {name: place for name, place in loaded.items() if place not in own and _may_hide(name, place, roots)}
    if not taken:
        return []
    files = {*(Path(place) for place in own if _INSTALLED not in place), *(each.file for each in file.graphs)}
    imported = {name for path in files for name in _imported(path)}
    return [
        f"{name!r} is imported from {taken[name]}, and not from the folder's own files; rename these, or give the "
        "folder a pool of its own"
        for name in sorted(taken.keys() & imported)
    ]


def _place(module: object) -> str:
    place = getattr(module, "__file__", None)
    return place if isinstance(place, str) else ""


def _may_hide(name: str, place: str, roots: tuple[Path, ...]) -> bool:
    """Whether a folder has a module that has the name of this one, which is of other teams or of ours."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or (_INSTALLED in place and top != _OURS):
        return False
    below = Path(*name.split("."))
    return any((root / below.with_suffix(".py")).is_file() or (root / below).is_dir() for root in roots)


def _imported(path: Path) -> Iterator[str]:
    """Yields the names that a file imports modules by, packages around them included."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = [f"{node.module}.{each.name}" for each in node.names]
        for name in found:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
