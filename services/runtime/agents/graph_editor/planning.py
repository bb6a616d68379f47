"""Plans: operations with ids that outlive a crash, based on revisions that were read, known by a digest."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from signalbox_routing.table import State

from services.kit.tools.effects import plain
from services.kit.tools.names import (
    ADD_EDGE,
    ADD_NODE,
    CYPHER_QUERY,
    DELETE_EDGE,
    DELETE_NODE,
    PREVIEW_CHANGES,
    READ_CHANGES,
    UNDO_CHANGE,
    UPDATE_PROPS,
)
from services.runtime.agents.graph_editor.change_set import checked, count_changed
from services.runtime.agents.graph_editor.goal import ToolSignature, asks_for_a_change
from services.runtime.agents.graph_editor.state import Operation, PerformedOperation, Plan, Problem
from services.runtime.calls.tool_client import ToolClient
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.waiting import WAIT

# What the executor says of an operation that it would carry out; anything else is why it would not.
FORETOLD: Final = frozenset({"created", "matched", "updated", "unchanged", "deleted", "undone", "no_preview"})
WRITING_TOOLS: Final = (ADD_NODE, ADD_EDGE, UPDATE_PROPS, DELETE_NODE, DELETE_EDGE, UNDO_CHANGE)
NOTHING_WRITTEN: Final = "nothing_written"
NO_PROBLEM: Final = Problem(reason="", message="", tool="", call="", retryable=False)
# The last release's digests have 32 digits, and tell nothing of what went before a plan.
_PLAN_HASH_DIGITS: Final = 40
# What a change is based on was read by nobody but us: the executor says so with its preview, and refuses another.
BASES: Final = frozenset({"base_revision", "base_edges"})


class NothingToUndo(Exception):
    """A run's changes can't be taken back; with a reason code and words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


async def make_plan(
    graph: ToolClient, context: NodeContext, signatures: Sequence[ToolSignature], *, goal_reached: bool, after: str
) -> Plan:
    """Returns a plan of these calls, made after the operation that was carried out last. Nothing is written.

    The same node started from the same checkpoint gives its operations the same ids, and another one others.
    Raises DependencyAway, ServiceFailed.
    """
    operations = _operations(context, signatures)
    foreseen = await _foresee(graph, context, operations)
    based = [
        Operation(**{**operation, "arguments": {**operation["arguments"], **_base(told)}})
        for operation, told in zip(operations, foreseen, strict=True)
    ]
    return Plan(operations=based, plan_hash=plan_hash(based, after), goal_reached=goal_reached)


async def find_graph_again(graph: ToolClient, context: NodeContext) -> None:
    """Asks the graph for little where an attempt at this node found it away: a model is not paid for each attempt.

    Raises DependencyAway.
    """
    if any(call["kind"] == WAIT and call["name"] == graph.service for call in context.run.attempts):
        await graph.call(context, READ_CHANGES, {"run_id": context.run.run_id}, READ_CHANGES)


async def plan_undo(graph: ToolClient, context: NodeContext, run_id: str) -> Plan:
    """Returns the plan that takes back what a run has changed and was not taken back before, last change first.

    Raises NothingToUndo for changes that can't be, DependencyAway, ServiceFailed.
    """
    answer = await graph.call(context, READ_CHANGES, {"run_id": run_id}, READ_CHANGES)
    if answer.HasField("error"):
        raise NothingToUndo(answer.error.reason, answer.error.message)
    with graph.reading(f"run {READ_CHANGES}"):
        changes = sorted(plain(answer.output.data)["changes"], key=lambda each: each["number"], reverse=True)
        undoable = all(each["undo"] for each in changes)
        signatures = [
            ToolSignature(tool=UNDO_CHANGE, arguments={"run_id": run_id, "operation_id": each["operation_id"]})
            for each in changes
            if not each["undone"] and (each["change"]["nodes"] or each["change"]["edges"])
        ]
    if not undoable:
        raise NothingToUndo("not_undoable", "A Cypher query of that run has written, and that can't be undone.")
    # What was taken back once is not among them again, so that nothing has to tell two such plans apart.
    return await make_plan(graph, context, signatures, goal_reached=True, after="")


async def preview(graph: ToolClient, context: NodeContext, operations: Sequence[Operation]) -> list[PerformedOperation]:
    """Returns what operations would do, one after another, in the order given. Raises DependencyAway, ServiceFailed."""
    foreseen = await _foresee(graph, context, operations)
    return [_step(operation, each) for operation, each in zip(operations, foreseen, strict=True)]


def operation_id(run_id: str, checkpoint_id: str, index: int) -> str:
    """Returns the id of an operation of a plan."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{checkpoint_id}/{index}").hex


def plan_hash(operations: Sequence[Operation], after: str) -> str:
    """Returns a digest of what a plan does, revisions included, and of the operation that was carried out last.

    The same calls have the same digest as long as none of them was carried out, and another one ever after.
    """
    return _digest([after, [[each["tool"], each["arguments"]] for each in operations]], _PLAN_HASH_DIGITS)


def carried_out_last(state: State) -> str:
    """Returns the id of the operation that came back last with a result, whether or not it was as meant; or nothing."""
    step = state.get("last_step")
    return str(step["operation_id"]) if step else ""


def is_write(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Tells whether a call changes the graph, or finds it as it was to be."""
    return tool in WRITING_TOOLS or (tool == CYPHER_QUERY and arguments.get("write") is True)


def change_missing(state: State) -> bool:
    """Tells whether a goal asks for a change, and none was carried out for it; an undo is planned by no model."""
    if state.get("undo_run_id"):
        return False
    answers = [each["answer"] for each in state.get("clarifications") or ()]
    words = "\n".join([state.get("goal", ""), *answers])
    wanted = asks_for_a_change(state.get("goal_spec") or {}, words)
    return wanted and not any(is_write(step["tool"], step["arguments"]) for step in state.get("done") or ())


def approval_holds(state: State, plan: Plan) -> bool:
    """Tells whether a person has approved this plan, and it was not carried out since."""
    approved = plan["plan_hash"] in (state.get("approved") or ())
    if not approved or len(plan["plan_hash"]) == _PLAN_HASH_DIGITS:
        return approved
    # Planned by the last release: what its approval was for may have been done by an earlier plan of the same calls.
    own = {operation["operation_id"] for operation in plan["operations"]}
    return all(step["operation_id"] in own for step in state.get("done") or ())


def unapproved_changes(state: State, plan: Plan, diff: Sequence[PerformedOperation]) -> int:
    """Returns how many nodes and edges the run would have changed after a plan, and nobody has approved."""
    if approval_holds(state, plan):
        return 0
    approved = set(state.get("approved_operations") or ())
    return count_changed([*(step for step in state.get("done") or () if step["operation_id"] not in approved), *diff])


def problem(reason: str, message: str, tool: str = "", arguments: Any = None, *, retryable: bool = False) -> Problem:
    """Returns what went wrong, with what makes it known when it goes wrong again."""
    call = _digest([tool, arguments, reason])
    return Problem(reason=reason, message=message, tool=tool, call=call, retryable=retryable)


def _operations(context: NodeContext, signatures: Sequence[ToolSignature]) -> list[Operation]:
    return [
        Operation(
            operation_id=operation_id(context.run.run_id, context.checkpoint_id, index),
            tool=each.tool,
            arguments={name: value for name, value in each.arguments.items() if name not in BASES},
        )
        for index, each in enumerate(signatures)
    ]


async def _foresee(
    graph: ToolClient, context: NodeContext, operations: Sequence[Operation]
) -> Sequence[Mapping[str, Any]]:
    if not operations:
        return []
    given = [{"tool": each["tool"], "arguments": each["arguments"]} for each in operations]
    answer = await graph.call(context, PREVIEW_CHANGES, {"operations": given}, PREVIEW_CHANGES)
    if answer.HasField("error"):
        return [{"reason": answer.error.reason, "message": answer.error.message}] * len(operations)
    with graph.reading(f"run {PREVIEW_CHANGES}"):
        foreseen: list[dict[str, Any]] = plain(answer.output.data)["operations"]
        for operation, told in zip(operations, foreseen, strict=True):
            _base(told)
            _step(operation, told)
    return foreseen


def _base(told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what an operation is based on: the executor says that, and nothing else of what is to be done."""
    return {name: value for name, value in told.get("base", {}).items() if name in BASES}


def _step(operation: Operation, told: Mapping[str, Any]) -> PerformedOperation:
    return checked(
        PerformedOperation(
            operation_id=operation["operation_id"],
            tool=operation["tool"],
            arguments=operation["arguments"],
            result=told.get("reason") or told["result"],
            text=told.get("message") or told.get("text", ""),
            change=told.get("change", {}),
            differs=[],
        )
    )


def _digest(value: Any, digits: int = 32) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
