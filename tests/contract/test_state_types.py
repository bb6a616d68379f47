"""What agents keep in state can be written to a checkpoint and read back: plain values and messages, nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from services.runtime.agents.registry import agent_graphs
from services.runtime.engine.serde import TypeNotAllowedError, make_serde
from services.runtime.routing.graph import AgentGraph

PLAIN = (str, int, float, bool, bytes, NoneType)


@dataclass
class Stranger:
    """A type that is on no list."""

    name: str


def strangers(hint: Any, place: str) -> Iterator[str]:
    """The places in a type where something stands that a checkpoint can't hold."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Annotated, NotRequired):
        yield from strangers(arguments[0], place)
    elif is_typeddict(hint):
        for name, field in get_type_hints(hint, include_extras=True).items():
            yield from strangers(field, f"{place}.{name}")
    elif origin is Literal or hint is Any or hint in PLAIN:
        return
    elif origin in (list, dict, tuple, Union, UnionType):
        for argument in arguments:
            yield from strangers(argument, place)
    elif not (isinstance(hint, type) and issubclass(hint, BaseMessage)):
        yield f"{place}: {hint}"


@pytest.mark.parametrize("graph", agent_graphs(), ids=lambda graph: graph.name)
def test_state_holds_only_what_checkpoints_can(graph: AgentGraph) -> None:
    assert not list(strangers(graph.state, graph.name))


def test_a_stranger_in_state_is_found() -> None:
    assert list(strangers(dict[str, Stranger], "state")) == [f"state: {Stranger}"]


def test_a_stranger_in_a_checkpoint_is_an_error() -> None:
    serde = make_serde()
    stored = serde.dumps_typed({"who": Stranger("x")})
    with pytest.raises(TypeNotAllowedError, match="Stranger"):
        serde.loads_typed(stored)


def test_messages_and_plain_values_come_back_as_they_were() -> None:
    call = {"name": "f", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
    state = {
        "messages": [HumanMessage("a"), AIMessage("", tool_calls=[call]), ToolMessage("b", tool_call_id="c1")],
        "rows": b"\x00\xff",
        "spend": {"model_calls": 2, "wall_time_s": 0.5},
    }
    serde = make_serde()
    assert serde.loads_typed(serde.dumps_typed(state)) == state
