"""What is watched while graphs are written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from services.local.reloading import LOOK_EVERY_S, reload_on_change


async def test_code_of_a_folder_beside_it_is_watched_too(tmp_path: Path) -> None:
    team, library = tmp_path / "team", tmp_path / "library"
    for each in (team, library):
        each.mkdir()
    (team / "langgraph.json").write_text(json.dumps({"dependencies": [".", "../library", "langchain"], "graphs": {}}))
    stopped, said = asyncio.Event(), list[str]()

    async def stop() -> None:
        stopped.set()

    stack: Any = SimpleNamespace(runtimes=[SimpleNamespace(stop=stop)])
    watching = asyncio.create_task(reload_on_change(stack, [team], said.append))
    try:
        async with asyncio.timeout(60):
            number = 0
            while not stopped.is_set():
                # The first look may not have been yet.
                number += 1
                (library / "nodes.py").write_text(f"NUMBER = {number * '1'}\n")
                await asyncio.wait([asyncio.ensure_future(stopped.wait())], timeout=2 * LOOK_EVERY_S)
    finally:
        watching.cancel()
    assert said[0].startswith(str(library / "nodes.py"))
