"""Where the code of a hosted graph is from: what makes a version of it, and how a line of it is named."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.runtime.hosted.path_function import PathFunction
from services.runtime.routing.digest import LENGTH

_NOT_CODE = frozenset((".git", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"))


@dataclass(frozen=True)
class CodeSource:
    """A folder, or a distribution with its version; `version` is another for other code."""

    folder: Path | None
    distribution: str
    version: str
    # Other folders that it imports from.
    outside: tuple[Path, ...] = ()

    @classmethod
    def of_folder(cls, folder: Path, outside: tuple[Path, ...] = ()) -> CodeSource:
        """Returns the source in a folder, and in others that it imports from.

        Its version is a digest of their Python files and of `langgraph.json`.
        """
        digest = hashlib.sha256()
        for root in (folder, *outside):
            for path in sorted(code_files(root)):
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        return cls(folder, "", digest.hexdigest()[:LENGTH], outside)

    def place(self, function: PathFunction) -> str:
        """Returns a function's file and line: relative to the folder, or behind the distribution."""
        if not function.file:
            return ""
        path = Path(function.file)
        for root in (self.folder, *self.outside):
            if root and path.is_relative_to(root):
                return f"{path.relative_to(root)}:{function.line}"
        parts = path.parts
        # What is installed is told by its place below the folder of packages, and no more of the machine.
        below = parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else parts[-1:]
        name = "/".join(below)
        return f"{self.distribution} {name}:{function.line}".strip()

    def of(self, runnable: Any) -> str:
        """Returns where the function of a node or a conditional edge is; empty where that is not known."""
        function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None)
        return self.place(PathFunction(function)) if function is not None else ""


def code_files(folder: Path) -> list[Path]:
    """Returns the files of a folder that a graph is made from."""
    found = [*folder.rglob("*.py"), *folder.glob("langgraph.json")]
    return [path for path in found if not _NOT_CODE.intersection(path.relative_to(folder).parts) and path.is_file()]
