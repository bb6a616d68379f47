"""Several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*steps: Coroutine[Any, Any, Any]) -> list[Any]:
    """Runs steps at once and returns their results; the first failure cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
