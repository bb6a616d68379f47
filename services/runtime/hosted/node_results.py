"""What nodes of hosted graphs returned, and how they failed: as a recording keeps it, and a replay gives it back.

In a replay no node runs. What decides does: path functions read the state that the nodes' results make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.types import Command, Send

from services.runtime.calls.recording import THREAD, Answer, Failure, current_recording
from services.runtime.hosted.session import BudgetSpentError

NODE, PATH, RETURNED, STATE = "node", "path", "returned", "state"
BUDGET = "budget"
# Gives the result of the node, or of the path function, of a place that is asked this. Raises what it failed with.
Replayed = Callable[[str, str, str], Any]


def record_result(serde: SerializerProtocol, source: str, place: str, given: Any, result: Any) -> None:
    """Takes down what a node or a path function returned, where its run is recorded."""
    recording = current_recording()
    if recording is None:
        return
    try:
        packed = ormsgpack.packb(_packed(serde, result))
    except (TypeError, ValueError):
        # Such as LangGraph leaves out of the state: the run goes on, and a replay says what it lacks.
        return
    recording.add(Answer(source=source, method=place, asked=asked_of_node(serde, given), answer=packed))


def answer_of_failure(place: str, error: BaseException, reason: str) -> Answer:
    """Returns how a node failed, for good or for another node to handle."""
    spent = error.part if isinstance(error, BudgetSpentError) else ""
    failure = Failure(kind=BUDGET if spent else NODE, message=spent or reason)
    return Answer(source=NODE, method=place, failure=failure)


def result_of(serde: SerializerProtocol, answer: Answer) -> Any:
    """Returns what was returned. Raises for what failed BudgetSpentError, or an error of the same name; ValueError."""
    if answer.HasField("failure"):
        if answer.failure.kind == BUDGET:
            raise BudgetSpentError(answer.failure.message)
        # LangGraph repeats no such error by itself: this is how the node failed for good.
        raise type(answer.failure.message, (RuntimeError,), {})
    return _unpacked(serde, ormsgpack.unpackb(answer.answer))


def asked_of_node(serde: SerializerProtocol, given: Any) -> str:
    """Returns a digest of what a node was given; empty where that can't be written down."""
    try:
        return hashlib.sha256(serde.dumps_typed(given)[1]).hexdigest()[:32]
    except (TypeError, ValueError):
        return ""


def answer_of_state(serde: SerializerProtocol, left: Sequence[CheckpointTuple]) -> Answer:
    """Returns the checkpoints that a run began with, which its thread had."""
    parts = [
        [each.config["configurable"]["checkpoint_ns"], *serde.dumps_typed([each.checkpoint, each.metadata])]
        for each in left
    ]
    return Answer(source=THREAD, method=STATE, answer=ormsgpack.packb(parts))


def state_of(serde: SerializerProtocol, answer: Answer) -> list[tuple[str, Any, Any]]:
    """Returns namespace, checkpoint and metadata of those that `answer_of_state` took down. Raises ValueError."""
    return [(namespace, *serde.loads_typed((kind, data))) for namespace, kind, data in ormsgpack.unpackb(answer.answer)]


def _packed(serde: SerializerProtocol, result: Any) -> list[Any]:
    match result:
        case Command():
            goto = result.goto if isinstance(result.goto, list | tuple) else [result.goto]
            return ["command", result.graph, _packed(serde, result.update), [_packed(serde, each) for each in goto]]
        case Send():
            return ["send", result.node, _packed(serde, result.arg)]
        case list() | tuple() if any(isinstance(each, Command | Send) for each in result):
            return ["several", [_packed(serde, each) for each in result]]
        case _:
            return ["value", *serde.dumps_typed(result)]


def _unpacked(serde: SerializerProtocol, packed: list[Any]) -> Any:
    match packed:
        case ["command", graph, update, goto]:
            to = [_unpacked(serde, each) for each in goto]
            return Command(graph=graph, update=_unpacked(serde, update), goto=to)
        case ["send", node, given]:
            return Send(node, _unpacked(serde, given))
        case ["several", parts]:
            return [_unpacked(serde, each) for each in parts]
        case ["value", kind, data]:
            return serde.loads_typed((kind, data))
        case _:
            raise ValueError("what a node returned is damaged")
