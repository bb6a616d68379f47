"""The skill behind `signalbox-offline-plan`: what of a goal is left to do, as operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from services.kit.tools.names import (
    ADD_NODE,
    UPDATE_PROPS,
)
from services.offline_model.conversation import Answer, Call, Conversation
from services.offline_model.graph_goals.reading import Operation, read
from services.offline_model.graph_goals.understanding import read_material, understand
from services.offline_model.vocabulary import Vocabulary

SUBMIT_PLAN: Final = "submit_plan"
MOST_OPERATIONS: Final = 20
_IDENTITY: Final = ("label", "key", "type", "from", "to", "where")


def plan_operations(conversation: Conversation, vocabulary: Vocabulary) -> Answer:
    """Hands in the operations that are left, after those that a person advised."""
    given = read_material(conversation.question)
    if not given:
        return Answer("I was shown no goal.")
    advised = [operation for advice in given.get("advice", ()) for operation in read(str(advice)).operations]
    done = given.get("done", ())
    left = _instead(_not_done(understand(given, vocabulary).operations, done), advised)
    left = [*_not_done(_once(advised), done), *left]
    if "is there already" in str(given.get("went_wrong", "")):
        left = [_updating(left[0]), *left[1:]] if left else []
    if not left and not done:
        return Answer("I find nothing in the goal that I could plan.")
    arguments = {"operations": left[:MOST_OPERATIONS], "goal_reached": len(left) <= MOST_OPERATIONS}
    return Answer(calls=(Call(SUBMIT_PLAN, arguments),))


def _not_done(operations: Iterable[Operation], done: Sequence[dict[str, Any]]) -> list[Operation]:
    return [operation for operation in operations if not any(_same(operation, each) for each in done)]


def _once(operations: Sequence[Operation]) -> list[Operation]:
    return [each for number, each in enumerate(operations) if each not in operations[:number]]


def _instead(operations: list[Operation], advised: Iterable[Operation]) -> list[Operation]:
    """Returns what is left besides advice: one that calls the same tool says how to do it, others what to do before."""
    for tool in (advice["tool"] for advice in advised):
        replaced = next((each for each in operations if each["tool"] == tool), None)
        operations = [each for each in operations if each is not replaced]
    return operations


def _same(operation: Operation, done: dict[str, Any]) -> bool:
    """Tells whether a step that was done is an operation: the same change of the same thing."""
    mine, others = operation["arguments"], done.get("arguments", {})
    if any(mine.get(name) != others.get(name) for name in _IDENTITY):
        return False
    tools = {operation["tool"], done.get("tool")}
    # What was there already was brought to the wanted properties by an update.
    if len(tools) == 1:
        return bool(mine.get("properties") == others.get("properties"))
    return tools == {ADD_NODE, UPDATE_PROPS}


def _updating(operation: Operation) -> Operation:
    """Returns what brings a node that is there already to the properties that it was to be added with."""
    if operation["tool"] != ADD_NODE or not operation["arguments"].get("properties"):
        return operation
    return {"tool": UPDATE_PROPS, "arguments": operation["arguments"]}
