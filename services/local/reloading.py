"""Loads graphs again when files of their folders change: the runtime starts anew, and runs go on where they were."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from services.local.concurrency import together
from services.local.stack import LocalStack

LOOK_EVERY_S = 0.5
_WATCHED = frozenset((".py", ".json", ".env", ".txt", ".md", ".yaml", ".yml"))
_NOT_WATCHED = frozenset((".git", ".venv", "venv", "node_modules", "__pycache__"))
Seen = dict[Path, tuple[int, int]]


async def reload_on_change(stack: LocalStack, folders: Sequence[Path], say: Callable[[str], None]) -> None:
    """Stops the replicas of the runtime on every change, until cancelled; whoever supervises them starts them again."""
    before = await asyncio.to_thread(_seen, folders)
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now = await asyncio.to_thread(_seen, folders)
        if now == before:
            continue
        changed = sorted({path for path, _ in now.items() ^ before.items()})
        before = now
        say(f"{changed[0]} has changed; the graphs are loaded again")
        await together(*(replica.stop() for replica in stack.runtimes))


def _seen(folders: Sequence[Path]) -> Seen:
    """Returns the files that graphs may be made of, each with its time and size."""
    found: Seen = {}
    for root in {each for folder in folders for each in (folder, *_dependencies(folder))}:
        for path in root.rglob("*"):
            if path.suffix not in _WATCHED and path.name != ".env":
                continue
            if _NOT_WATCHED.intersection(path.relative_to(root).parts):
                continue
            try:
                status = path.stat()
            except OSError:  # It has just gone.
                continue
            found[path] = status.st_mtime_ns, status.st_size
    return found


def _dependencies(folder: Path) -> list[Path]:
    """Returns the folders that a folder's `langgraph.json` imports from; none while it can't be read."""
    try:
        given = json.loads((folder / "langgraph.json").read_bytes()).get("dependencies", [])
        return [(folder / each).resolve() for each in given if each.startswith(".")]
    except (OSError, ValueError, AttributeError, TypeError):  # It is being written, and read again in a moment.
        return []
