"""What is told to a caller, or asked of a person, where a run can't go on by itself. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from google.protobuf import json_format

from services.kit.tools.names import CYPHER_QUERY
from services.runtime.agents.graph_editor.change_set import change_set, count_changed
from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.graph_editor.state import (
    AMBIGUITY,
    APPROVAL,
    CONTRADICTION,
    FAILURE,
    Escalation,
    GraphEditorState,
)
from services.runtime.agents.graph_editor.wording import foretold_step
from services.runtime.agents.refusals import UNKNOWN_TOOL

APPROVE: Final = "approve"
DECLINE: Final = "decline"
LEAVE_IT: Final = "leave it as it is"
_UNCLEAR: Final = "It is not clear what is wanted. What should be changed or found, and in which nodes?"


def composed(rule: str, state: GraphEditorState, tools: Sequence[str], policy: GraphEditorPolicy) -> Escalation:
    """Returns what to tell or to ask, and whom, after the rule that called for it."""
    undoing = bool(state.get("undo_run_id"))
    if rule in ("identical", "retries_exhausted") and (undoing or not state.get("goal_spec")):
        return inform(_gave_up(state, tools))
    told = _COMPOSED[rule](state, tools)
    if told["about"] == APPROVAL and policy.approval_role:
        return {**told, "for_caller": False, "roles": [policy.approval_role]}
    return told


def question(
    about: str, text: str, options: Sequence[str], no: str, *, any_text: bool = True, plan_hash: str = ""
) -> Escalation:
    """Returns what asks a person; the run's caller, if nobody else is named."""
    return Escalation(
        about=about,
        text=text,
        options=[*options],
        no=no,
        any_text=any_text,
        plan_hash=plan_hash,
        changes={},
        for_caller=True,
        roles=[],
    )


def inform(text: str) -> Escalation:
    """Returns what tells the caller, and asks nobody."""
    return question("", text, [], "", any_text=False)


def what_it_can_do(tools: Sequence[str]) -> str:
    """Returns what this agent is for, in words."""
    return f"I change and query the graph of nodes and edges, with the tools {', '.join(tools)}."


def _out_of_scope(_state: GraphEditorState, tools: Sequence[str]) -> Escalation:
    return inform(f"That is out of scope: it is not about the graph. {what_it_can_do(tools)}")


def _contradiction(state: GraphEditorState, _tools: Sequence[str]) -> Escalation:
    found = state["goal_spec"]["contradictions"]
    first = found[0]
    more = "".join(f"\nThis contradicts itself too: {each['about']}" for each in found[1:])
    choices = [choice for choice in dict.fromkeys(first["choices"]) if choice != LEAVE_IT]
    text = f"The goal contradicts itself: {first['about']} Which should it be?{more}"
    return question(CONTRADICTION, text, [*choices, LEAVE_IT], LEAVE_IT)


def _ambiguous(state: GraphEditorState, _tools: Sequence[str]) -> Escalation:
    questions = state["goal_spec"].get("questions") or [_UNCLEAR]
    return question(AMBIGUITY, " ".join(questions), [LEAVE_IT], LEAVE_IT)


def _approval(state: GraphEditorState, _tools: Sequence[str]) -> Escalation:
    lines = []
    for step in state["diff"]:
        if step["change"]:
            lines += [f"- {line}" for line in foretold_step(step)]
        elif step["tool"] == CYPHER_QUERY:
            query = step["arguments"].get("query", "")
            lines.append(f"- Run the Cypher query {query!r}, which has no preview and can't be undone.")
        else:
            lines.append(f"- {step['tool']}: {step['text']}")
    changed = state.get("unapproved_changes", 0)
    if changed > count_changed(state["diff"]):
        lines.append(f"With what was done before, that makes {changed} nodes and edges.")
    text = "This needs an approval before it is done:\n" + "\n".join(lines)
    plan_hash = state["plan"]["plan_hash"]
    asked = question(APPROVAL, text, [APPROVE, DECLINE], DECLINE, any_text=False, plan_hash=plan_hash)
    return {**asked, "changes": json_format.MessageToDict(change_set(state["diff"]))}


def _failure(state: GraphEditorState, _tools: Sequence[str]) -> Escalation:
    text = f"This does not work: {state['problem']['message']} How should it be done instead?"
    return question(FAILURE, text, [LEAVE_IT], LEAVE_IT)


def _step_limit(state: GraphEditorState, _tools: Sequence[str]) -> Escalation:
    if state.get("undo_run_id"):
        return inform("The undo takes more operations than one run may make; ask for it again, and it goes on.")
    return inform("The goal takes more operations than one run may make; ask for it in parts.")


def _systematic(state: GraphEditorState, tools: Sequence[str]) -> Escalation:
    problem = state["problem"]
    if problem["reason"] == UNKNOWN_TOOL:
        return inform(f"I have no tool {problem['tool']!r}. {what_it_can_do(tools)}")
    return inform(f"This can't be done: {problem['message']}")


def _gave_up(state: GraphEditorState, tools: Sequence[str]) -> str:
    if state.get("undo_run_id"):
        return f"It can't be undone: {state['problem']['message']}"
    return f"I could not make out what is wanted ({state['problem']['message']}). {what_it_can_do(tools)}"


_COMPOSED: Final[dict[str, Callable[[GraphEditorState, Sequence[str]], Escalation]]] = {
    "out_of_scope": _out_of_scope,
    "contradiction": _contradiction,
    "ambiguous": _ambiguous,
    "needs_approval": _approval,
    "retries_exhausted": _failure,
    "identical": _failure,
    "step_limit": _step_limit,
    "systematic": _systematic,
}
