"""What a model is told of a call that was not made, or that a tool refused: one form, whoever says it."""

from __future__ import annotations

from collections.abc import Iterable

from services.runtime.agents.quoting import quoted

TOOL_NAME_LENGTH = 64
INVALID_ARGUMENTS = "invalid_arguments"
NOT_RUN = "not_run"
UNKNOWN_TOOL = "unknown_tool"


def refusal(reason: str, message: str) -> str:
    """Returns what answers a call that came to nothing."""
    return f"error: {reason}: {message}"


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Returns what answers a call of a tool that there is not."""
    return refusal(UNKNOWN_TOOL, no_such_tool(name, known))


def no_such_tool(name: str, known: Iterable[str]) -> str:
    """Returns the same in words alone."""
    return f"there is no tool {quoted(name, TOOL_NAME_LENGTH)}; there are {', '.join(known)}"
