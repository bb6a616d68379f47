"""The contract's stubs below `v1`, and what a hosted graph may use of the platform: it need not use any of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def tools(executor: str, **fixed: Any) -> list[Any]:
    """Returns the tools of an executor as LangChain tools: `sql_executor`, `graph_executor`, `code_executor`,
    or `mcp_executor`, which has those of MCP servers.

    They are called under the run's own token, so with its caller's rights, and what writes does so once, also when its
    step runs again; of tools of MCP servers, those that are said to. `fixed` are arguments that no model chooses, such as `source` of the code executor. Ask for them
    where the graph is made. Raises PlatformMissing outside of the platform.
    """
    from services.runtime.hosted.executor_tools import tools as made

    return made(executor, fixed)


def effect(
    function: Callable[..., Any] | None = None, *, look_up: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Makes a function one whose result is kept: `@signalbox.effect`, or with `look_up`.

    A node that runs again gets the result, and the function is not called again. Where the process ended between call
    and result, `look_up(key, *args, **kwargs)` is asked what came of it: a result, or None for nothing, and the
    function is called (again). The function finds the key, the same each time, in `signalbox.effect_key()`. Results are
    of the types that a state may hold. Outside of the platform the function is called as it is.
    """
    from services.runtime.hosted.effects import effect as made

    return made(function, look_up) if function is not None else lambda given: made(given, look_up)


def effect_key() -> str:
    """Returns the key of the effect that is under way, to be told to whoever takes it; empty outside of one."""
    from services.runtime.hosted.effects import effect_key as found

    return found()


