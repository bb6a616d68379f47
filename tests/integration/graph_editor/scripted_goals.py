"""What models make of goals, as tests script it: readings, plans, and the operations in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fixtures.scripted_model import Reply

Call = tuple[str, Mapping[str, Any]]

UPDATE: Call = ("update_props", {"label": "Ticket", "key": "T-1", "properties": {"status": "closed"}})
DELETE: Call = ("delete_node", {"label": "Ticket", "key": "T-1"})


def goal(
    *operation: Any, complexity: str = "simple", contradictions: Sequence[Mapping[str, Any]] = (), **more: Any
) -> Reply:
    """A reading of a goal; with the tool and arguments of a simple one."""
    said: dict[str, Any] = {
        "intent": "change the graph", "complexity": complexity, "confidence": 0.9, "in_scope": True,
        "contradictions": list(contradictions), **more,
    }  # fmt: skip
    if operation:
        said["operation"] = {"tool": operation[0], "arguments": operation[1]}
    return Reply.tool_call("submit_goal", said)


def plan(*calls: Call, reached: bool = True) -> Reply:
    """A plan."""
    operations = [{"tool": tool, "arguments": arguments} for tool, arguments in calls]
    return Reply.tool_call("submit_plan", {"operations": operations, "goal_reached": reached})


def ticket(key: str, **properties: Any) -> Call:
    """Adds a ticket."""
    return "add_node", {"label": "Ticket", "key": key, "properties": properties}


COMPLEX = goal(complexity="complex")
