"""What a failure is, by its reason, its call and what failed before."""

from __future__ import annotations

from typing import Any, cast

import pytest

from services.runtime.agents.graph_editor.diagnosis import diagnose
from services.runtime.agents.graph_editor.planning import problem
from services.runtime.agents.graph_editor.state import GraphEditorState

ARGUMENTS = {"label": "Ticket", "key": "T-1"}


def after(reason: str, tool: str = "update_props", *, goal: str = "Do it.", **state: Any) -> GraphEditorState:
    """The state after a failure."""
    wrong = problem(reason, "It failed.", tool, ARGUMENTS, retryable=state.pop("retryable", False))
    whole = {"goal": goal, "goal_spec": {"intent": "edit"}, "problem": wrong, **state}
    return cast(GraphEditorState, whole)


MOVED = problem("revision_moved", "", "update_props", ARGUMENTS)["call"]
SAME = problem("node_not_found", "", "update_props", ARGUMENTS)["call"]


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (after("CONTENDED", retryable=True), "random"),
        (after("CONTENDED", retryable=True, seen_failures=[SAME]), "random"),
        (after("node_not_found"), "input"),
        (after("node_not_found", seen_failures=[SAME], failures=2), "identical"),
        (after("node_not_found", seen_failures=[SAME], failures=1), "input"),
        (after("node_not_found", seen_failures=[SAME, ""], failures=2), "input"),
        (after("node_not_found", seen_failures=[SAME, ""], failures=3), "identical"),
        (after("node_not_found", "delete_node", seen_failures=[SAME], failures=2), "input"),
        (after("revision_moved", seen_failures=[MOVED], failures=2), "input"),
        (after("label_refused"), "systematic"),
        (after("WRITES_NOT_ALLOWED"), "systematic"),
        (after("unknown_tool", "send_email", goal="Use the `send_email` tool."), "systematic"),
        (after("unknown_tool", "send_email", goal="Tell the team."), "input"),
        (after("unknown_tool", "send", goal="Use the `send_email` tool."), "input"),
        (after("unknown_tool", "send_email", goal="Tell them.", advice=["Take send_email."]), "systematic"),
        (after("changed_since", "undo_change", undo_run_id="another"), "systematic"),
        (after("unreadable_goal", "", goal_spec={}), "input"),
    ],
)
def test_a_failure_is_classified(state: GraphEditorState, kind: str) -> None:
    assert diagnose(state) == kind


def test_a_goal_that_can_not_be_read_twice_is_not_the_same_call() -> None:
    state = after("unreadable_goal", "", goal_spec={})
    again = {**state, "seen_failures": [state["problem"]["call"]], "failures": 2}
    assert diagnose(cast(GraphEditorState, again)) == "input"
