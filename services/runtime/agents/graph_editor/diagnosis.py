"""What a failure is: from its reason, its call, and the failures before it. No model is asked."""

from __future__ import annotations

import re
from typing import Final

from services.runtime.agents.graph_editor.planning import NOTHING_WRITTEN
from services.runtime.agents.graph_editor.state import IDENTICAL, INPUT, RANDOM, SYSTEMATIC, GraphEditorState
from services.runtime.agents.refusals import UNKNOWN_TOOL

# The base that an operation was planned on is another by now.
MOVED: Final = "revision_moved"
# Another plan has no more rights than this one; and who planned no change twice does not know of any.
_NOT_PERMITTED: Final = frozenset(
    {
        "label_refused", "write_refused", "cypher_refused", "GRAPH_UNNAMED", "GRAPH_FORBIDDEN", "TOOL_NOT_ALLOWED",
        "WRITES_NOT_ALLOWED", "change_not_found", "not_undoable", NOTHING_WRITTEN,
    }
)  # fmt: skip


def diagnose(state: GraphEditorState) -> str:
    """Returns the kind of the last failure."""
    problem = state["problem"]
    if problem["retryable"]:
        return RANDOM
    # What has changed meanwhile is planned again on what is there now, which is another call; how often, a limit says.
    if problem["reason"] == MOVED:
        return INPUT
    # Each reading of a goal is shown more than the one before it, and so is another call.
    if state.get("goal_spec") and problem["call"] in _failures_that_count(state):
        return IDENTICAL
    names_it = problem["reason"] == UNKNOWN_TOOL and _named(problem["tool"], _words_of_the_caller(state))
    if names_it or problem["reason"] in _NOT_PERMITTED or state.get("undo_run_id"):
        return SYSTEMATIC
    return INPUT


def _failures_that_count(state: GraphEditorState) -> list[str]:
    """Returns the calls that failed since the last good operation or advice, but for the last one."""
    before = state.get("failures", 1) - 1
    return (state.get("seen_failures") or [])[-before:] if before > 0 else []


def _words_of_the_caller(state: GraphEditorState) -> str:
    answers = [each["answer"] for each in state.get("clarifications") or ()]
    return "\n".join([state["goal"], *answers, *(state.get("advice") or ())])


def _named(tool: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", text) is not None
