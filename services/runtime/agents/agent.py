"""Agents as the engine has them: a definition with its services, under the limits that runs are pinned to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from signalbox.v1 import caller_pb2, runs_pb2
from signalbox_routing.facts import Record

from services.kit.models.prompt_files import prompts_digest
from services.kit.outcome import Outcome
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.definition import AnyDefinition
from services.runtime.agents.policies import Limits
from services.runtime.calls.connections import Connections
from services.runtime.calls.guard_client import GuardClient
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.recorder import CallRecord, StepRecord
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import IN_PROGRESS, STEPS, Budget, Spend

# Policies that runs under way are pinned to: the one in force, and those of before that have runs left.
POLICIES_AT_ONCE = 64


class PinnedAgent:
    """An agent under one policy: its graph, ready to run."""

    steps_channel = STEPS
    max_step_bytes = None

    def __init__(self, definition: AnyDefinition, policy: Record, connections: Connections) -> None:
        self._definition = definition
        self._policy = policy
        self.graph: AgentGraph = definition.graph(definition.wire(connections, policy), policy)
        self.compiled: CompiledStateGraph[Any, RunContext, Any, Any] = self.graph.compile(
            definition.ids, prompts_digest(definition.prompt_packages)
        )
        self.turns_remembered = definition.turns_remembered(policy)

    def initial_state(self, assignment: Assignment) -> dict[str, Any]:
        """Returns the state that the graph starts with, beyond what every agent has."""
        return self._definition.begin(_content(runs_pb2.RunInput, assignment.input), assignment, self._policy)

    def first_state(
        self, assignment: Assignment, *, started_at: datetime, budget: Budget, spend: Spend
    ) -> dict[str, Any]:
        """Returns the state that the graph starts with."""
        return {
            "run_id": assignment.run_id,
            "correlation_id": assignment.correlation_id,
            "status": IN_PROGRESS,
            "iteration_count": 0,
            "started_at": started_at.isoformat(),
            "budget": budget,
            "spend": spend,
            "messages": [],
            **self.initial_state(assignment),
        }

    @contextmanager
    def working(
        self, config: RunnableConfig, given: bytes, *, budget: Budget, spend: Spend, attempts: list[CallRecord]
    ) -> Iterator[tuple[RunnableConfig, None]]:
        """Returns the config as it is: nodes and routers are wrapped, and know of the budget by their state."""
        del given, budget, spend, attempts
        yield config, None

    def context(self, run: RunContext, given: bytes) -> RunContext:
        """Returns what nodes get as their runtime's context."""
        del given
        return run

    async def admit(self, run: RunContext, given: bytes, changes: Mapping[str, Any]) -> StepRecord | None:
        """Lets any input in: where one is to be screened, a node does it."""

    def answer(self, text: str) -> str:
        """Returns what a graph gets for a person's answer."""
        return text

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the serialized `RunOutput` of a state."""
        return _output(self._definition, state, assigned_input)

    def outcome(self, state: Mapping[str, Any]) -> Outcome:
        """Returns what came of a run that ended in a state."""
        return self._definition.outcome(state)


class Agent:
    """An agent that this runtime offers, and the limits that its new runs get."""

    def __init__(self, definition: AnyDefinition, connections: Connections, limits: Limits) -> None:
        self.definition = definition
        self.limits = limits
        self._connections = connections
        self._pinned = lru_cache(POLICIES_AT_ONCE)(self._pin)

    @property
    def outline(self) -> AgentGraph:
        """The graph without services; its nodes, state and tables are the same under every policy."""
        return self.definition.outline

    @cached_property
    def in_force(self) -> AgentGraph:
        """The graph without services under the policy that new runs get."""
        definition, policy = self.definition, self.limits.policy
        return self.outline if policy == definition.policy() else definition.graph(definition.nodes, policy)

    @property
    def guard(self) -> GuardClient:
        """What screens words for it."""
        return self._connections.guard

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the serialized `RunOutput` of a state, which no policy has a part in."""
        return _output(self.definition, state, assigned_input)

    def words_of(self, serialized_input: bytes) -> str:
        """Returns what the caller of a run said; nothing where the agent's answers are not screened."""
        words = self.definition.words
        return words(_content(runs_pb2.RunInput, serialized_input)) if words else ""

    def under(self, policy: Record) -> PinnedAgent:
        """Returns the agent under a policy; made once for each."""
        pinned: PinnedAgent = self._pinned(policy)  # type: ignore[arg-type]  # frozen dataclasses are hashable
        return pinned

    def _pin(self, policy: Any) -> PinnedAgent:
        return PinnedAgent(self.definition, policy, self._connections)


def _output(definition: AnyDefinition, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
    brought = definition.result(state, _content(runs_pb2.RunInput, assigned_input))
    oneof = runs_pb2.RunOutput.DESCRIPTOR.oneofs_by_name["agent"]
    [field] = [field for field in oneof.fields if field.message_type == brought.DESCRIPTOR]
    return runs_pb2.RunOutput(**{field.name: brought}).SerializeToString()


def _content(container: Any, serialized: bytes) -> Any:
    """Returns the one message that a `RunInput` or `RunOutput` holds."""
    held = container.FromString(serialized)
    return getattr(held, held.WhichOneof("agent"))


def token_usage(spend: Spend) -> caller_pb2.TokenUsage:
    """Returns the tokens of what was spent."""
    given, made = spend["input_tokens"], spend["output_tokens"]
    return caller_pb2.TokenUsage(input_tokens=given, output_tokens=made, total_tokens=given + made)
