"""The agent `graph_editor`: a goal for a property graph, done step by step, with a person where it matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.v1 import graph_editor_pb2

from services.kit.outcome import Outcome
from services.runtime.agents.agent import token_usage
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.definition import AgentDefinition
from services.runtime.agents.graph_editor.change_set import change_set, steps_of
from services.runtime.agents.graph_editor.graph import make_graph
from services.runtime.agents.graph_editor.nodes import GraphEditorNodes
from services.runtime.agents.graph_editor.planning import NO_PROBLEM, change_missing
from services.runtime.agents.graph_editor.policy import GraphEditorPolicy
from services.runtime.agents.graph_editor.state import PerformedOperation
from services.runtime.agents.graph_editor.wording import broken_off
from services.runtime.agents.screening import BLOCKED
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import GRAPH_EXECUTOR, GUARD
from services.runtime.routing.state import Budget


def _wire(connections: Connections, policy: GraphEditorPolicy) -> GraphEditorNodes:
    return GraphEditorNodes(
        guard=connections.guard,
        graph=connections.tools(GRAPH_EXECUTOR),
        parse_model=connections.model("parse"),
        plan_model=connections.model("plan"),
        answer_model=connections.model("answer"),
        policy=policy,
    )


def begin(
    agent_input: graph_editor_pb2.GraphEditorInput, _assignment: Assignment, _policy: GraphEditorPolicy
) -> dict[str, Any]:
    """Returns the goal, or the run to undo."""
    return {
        "goal": agent_input.goal,
        "preview": agent_input.preview,
        "undo_run_id": agent_input.undo_run_id,
        "failures": 0,
        "problem": NO_PROBLEM,
    }


def result(
    state: Mapping[str, Any], agent_input: graph_editor_pb2.GraphEditorInput
) -> graph_editor_pb2.GraphEditorOutput:
    """Returns what was done; of a preview, what would be."""
    done = [*(state.get("done") or ()), *_unjudged(state)]
    steps = [*(state.get("diff") or ())] if agent_input.preview and not done else done
    return graph_editor_pb2.GraphEditorOutput(
        answer=state.get("answer") or broken_off(done),
        outcome=outcome(state).proto,
        steps=steps_of(steps),
        change_set=change_set(steps),
        token_usage=token_usage(state["spend"]),
    )


def outcome(state: Mapping[str, Any]) -> Outcome:
    """Returns how far the goal was reached; of a run that broke off, by the steps that it had done."""
    if state.get("screening") == BLOCKED:
        return Outcome.BLOCKED
    if reached := state.get("reached"):
        return Outcome(reached)
    some = (state.get("done") and not change_missing(state)) or _unjudged(state)
    return Outcome.PARTLY if some else Outcome.NOT_DONE


def _unjudged(state: Mapping[str, Any]) -> list[PerformedOperation]:
    """Returns the step of a run that broke off after an operation had changed something, and before it was judged."""
    step: PerformedOperation | None = state.get("last_step")
    if step is None or not step["change"] or state.get("answer"):
        return []
    judged = {each["operation_id"] for each in state.get("done") or ()}
    return [] if step["operation_id"] in judged else [step]


AGENT = AgentDefinition(
    name="graph_editor",
    description="Changes or queries a property graph, and asks a person where it matters.",
    input=graph_editor_pb2.GraphEditorInput,
    output=graph_editor_pb2.GraphEditorOutput,
    policy=GraphEditorPolicy,
    budget=Budget(model_calls=40, tool_calls=120, tokens=500_000, wall_time_s=600.0),
    nodes=GraphEditorNodes,
    graph=make_graph,
    wire=_wire,
    begin=begin,
    result=result,
    outcome=outcome,
    outcomes=(
        Outcome.DONE,
        Outcome.PARTLY,
        Outcome.NOT_DONE,
        Outcome.PREVIEWED,
        Outcome.DECLINED,
        Outcome.BLOCKED,
    ),
    peers=(GUARD, GRAPH_EXECUTOR),
    models=("parse", "plan", "answer"),
    words=lambda agent_input: agent_input.goal,
    title=lambda agent_input: agent_input.goal or f"Undo run {agent_input.undo_run_id}",
    tells_broken_off=True,
)
