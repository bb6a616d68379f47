"""What was done, in words: from recorded steps alone, so that nothing is claimed that did not happen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.kit.tools.names import UNDO_CHANGE
from services.runtime.agents.graph_editor.state import GraphEditorState, PerformedOperation
from services.runtime.agents.screening import BLOCKED, refusal

FOUND = "found"
NOTHING_CHANGED = "Nothing was changed."
NOTHING_TO_DO = "There was nothing to do."
NOTHING_TO_UNDO = (
    "There was nothing to undo: that run changed nothing in the graph, or all of it was taken back already."
)
NOTHING_ELSE_CHANGED = "Nothing else was changed."
KEY = "key"
_TAKEN_BACK = {"Created": "Brought back", "Deleted": "Removed", "Changed": "Set back"}
_TO_BE_DONE = {"Created": "Create", "Deleted": "Delete", "Changed": "Change", "Brought": "Bring", "Removed": "Remove"}
STOPPED = {
    "budget_exhausted": "What this run may spend was used up before the goal was reached.",
    "question_limit": "Too many questions were asked in this run without coming to the goal.",
    "expired": "Nobody answered in time, so it was left as it is.",
    "defaulted": "Nobody answered in time, and then it is left as it is.",
    "declined": "It was declined, so it was left as it is.",
}


def told(steps: Sequence[PerformedOperation]) -> str:
    """Returns what steps did, a line for each change."""
    return "\n".join(line for step in steps for line in told_step(step))


def told_step(step: PerformedOperation) -> list[str]:
    """Returns what one step did; of a step that changed nothing, what its tool said."""
    lines = [*told_change(step["change"])]
    if step["tool"] == UNDO_CHANGE:
        lines = [line.replace(line.split()[0], _TAKEN_BACK[line.split()[0]], 1) for line in lines]
    return lines or [step["text"]]


def foretold_step(step: PerformedOperation) -> list[str]:
    """Returns what one step would do, that has not been done."""
    words = [line.partition(" ") for line in told_step(step)]
    return [f"{_TO_BE_DONE.get(first, first)}{space}{rest}" for first, space, rest in words]


def told_change(change: Mapping[str, Any]) -> Iterator[str]:
    """Yields what became of each node and edge of a change."""
    for node in change.get("nodes", ()):
        yield _told(f"the node {node['label']} {node['key']!r}", node)
    for edge in change.get("edges", ()):
        ends = [f"{edge[end]['label']} {edge[end]['key']!r}" for end in ("from", "to")]
        yield _told(f"the edge {edge['type']} from {ends[0]} to {ends[1]}", edge)


def answer_of(rule: str, state: GraphEditorState) -> str:
    """Returns what to tell the caller of a run that ended its work by this rule, but for what was found."""
    done = state.get("done") or []
    written = [step for step in done if step["result"] != FOUND]
    if rule == "goal_complete":
        return told(written) if written or done else NOTHING_TO_UNDO if state.get("undo_run_id") else NOTHING_TO_DO
    if rule == "previewed":
        return _previewed(state.get("diff") or [])
    if rule == "outcome_unknown":
        operation = state["plan"]["operations"][state["position"]]
        why = (
            f"The answer to {operation['tool']} ({_short(operation['arguments'])}) was lost, and it is not known "
            "whether it took effect."
        )
        return f"{why}\n{_so_far(written, nothing=NOTHING_ELSE_CHANGED)}"
    if rule == BLOCKED:
        why = refusal("goal", state["screening_reason"])
    elif rule == "informed":
        why = state["escalation"]["text"]
    else:
        why = STOPPED[rule]
        if rule == "question_limit":
            why += f" The last one would have been: {state['escalation']['text']}"
    return f"{why}\n{_so_far(written)}"


def not_touched(names: Sequence[str]) -> str:
    """Returns what to tell the caller of names of their goal that stand in nothing that was done."""
    return f"The goal also names {', '.join(map(repr, names))}, which nothing that was done is about."


def broken_off(done: Sequence[PerformedOperation]) -> str:
    """Returns what to tell the caller of a run that nobody ended by a rule: it was cancelled, or failed."""
    written = [step for step in done if step["result"] != FOUND]
    return f"The run ended before its goal was reached.\n{_so_far(written)}"


def _previewed(diff: Sequence[PerformedOperation]) -> str:
    lines = []
    for step in diff:
        if step["change"]:
            lines += [f"- {line}" for line in foretold_step(step)]
        else:
            lines.append(f"- {step['tool']} ({_short(step['arguments'])}): {step['text'] or 'it has no preview'}")
    if not lines:
        return "Nothing was written, and nothing would be."
    return "Nothing was written. This is what would be done:\n" + "\n".join(lines)


def _so_far(written: Sequence[PerformedOperation], nothing: str = NOTHING_CHANGED) -> str:
    return f"Before that:\n{told(written)}" if written else nothing


def _told(what: str, change: Mapping[str, Any]) -> str:
    before, after = (change[at] and _own(change[at]["properties"]) for at in ("before", "after"))
    if after is None:
        return f"Deleted {what}."
    if before is None:
        return f"Created {what}{f' ({_properties(after)})' if after else ''}."
    new = {name: value for name, value in after.items() if before.get(name) != value}
    gone = [name for name in before if name not in after]
    parts = [*([_properties(new)] if new else []), *(f"{name} removed" for name in gone)]
    return f"Changed {what}: {', '.join(parts)}."


def _own(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name != KEY}


def _properties(properties: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in properties.items())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= 300 else text[:299] + "…"
