"""The examples in the graph editor's prompts: what its nodes read, and calls that the executor's tools take."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from services.graph_executor.arguments import ToolArguments
from services.graph_executor.policy import GraphPolicy
from services.kit.models.mending import objects_in
from services.kit.models.prompts import words
from services.runtime.agents import graph_editor
from services.runtime.agents.graph_editor.goal import GoalSpec, StepPlan, ToolSignature

RecordT = TypeVar("RecordT", bound=BaseModel)

POLICY = GraphPolicy.model_validate(
    {
        "version": 1,
        "labels": {"Bike": {"properties": {"colour": {"type": "string"}}}, "Shop": {}},
        "edges": {"SELLS": {"from": ["Shop"], "to": ["Bike"]}},
        "roles": {"*": {"read": "*", "write": "*"}},
    }
)

TOOLS = ToolArguments(POLICY)


def check_calls(*operations: ToolSignature | None) -> int:
    """Returns how many calls there are, all of which their tools take."""
    calls = [each for each in operations if each is not None]
    for call in calls:
        getattr(TOOLS, call.tool).checked_values(call.arguments)
    return len(calls)


def examples_in(prompt: str, kind: type[RecordT]) -> list[RecordT]:
    """Reads the examples of a prompt, which have no other fields than what they are read as."""
    found = [each for _, _, each in objects_in(words(graph_editor.__name__, prompt))]
    assert all(set(each) <= set(kind.model_fields) for each in found)
    return [kind.model_validate(each) for each in found]


def test_examples_of_goals_are_read_and_their_operations_can_be_called() -> None:
    goals = examples_in("parse", GoalSpec)
    assert (len(goals), check_calls(*(goal.operation for goal in goals))) == (5, 2)


def test_examples_of_plans_are_read_and_their_operations_can_be_called() -> None:
    [plan] = examples_in("plan", StepPlan)
    assert check_calls(*plan.operations) == 2
