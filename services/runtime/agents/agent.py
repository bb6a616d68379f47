"""What the engine needs of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from signalbox.v1 import caller_pb2

from services.kit.identity import Caller
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.state import Budget, Spend


@dataclass(frozen=True)
class Assignment:
    """A run, as its agent gets it: the input, and what the thread said before. All protos are serialized."""

    run_id: str
    correlation_id: str
    caller: Caller
    input: bytes
    turns: Sequence[tuple[bytes, bytes]]


class Agent(Protocol):
    """An agent: its graph, and the way from a run's input to state and from state to output."""

    graph: AgentGraph
    budget: Budget
    turns_remembered: int

    def initial_state(self, assignment: Assignment) -> dict[str, Any]:
        """Returns the state that the graph starts with, beyond what every agent has."""

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the serialized `RunOutput` of a state."""


def token_usage(spend: Spend) -> caller_pb2.TokenUsage:
    """Returns the tokens of what was spent."""
    given, made = spend["input_tokens"], spend["output_tokens"]
    return caller_pb2.TokenUsage(input_tokens=given, output_tokens=made, total_tokens=given + made)
