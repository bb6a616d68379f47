"""What the engine, the carrier and the servicers ask of an agent, be it one with tables or a graph that was brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from google.protobuf.message import Message
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from signalbox.v1 import runs_pb2
from signalbox_routing.facts import Record

from services.kit.outcome import Outcome
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.policies import Limits
from services.runtime.agents.run_key import RunKey
from services.runtime.calls.guard_client import GuardClient
from services.runtime.hosted.session import HostedSession
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.recorder import CallRecord, StepRecord
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import Budget, Spend


class Definition(Protocol):
    """What an agent is."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def description(self) -> str:
        """What it does, in a sentence."""

    @property
    def input(self) -> type[Message]:
        """Type of its input."""

    @property
    def output(self) -> type[Message]:
        """Type of its output."""

    @property
    def policy(self) -> type[Record]:
        """Type of its limits."""

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What may come of its runs."""

    @property
    def budget(self) -> Budget:
        """What a run of it may spend, when nobody says otherwise."""

    @property
    def words(self) -> Callable[[Any], str] | None:
        """Takes what the caller said from an input; None where answers are not screened."""

    @property
    def run_key(self) -> Callable[[Any], RunKey] | None:
        """Takes the key from an input by which a caller has one run; None where there is none."""

    @property
    def outline(self) -> AgentGraph:
        """Its graph, to look at."""

    def check_input(self, given: runs_pb2.RunInput) -> None:
        """Checks what the protos do not. Raises InvalidRequest."""

    def title_of(self, given: runs_pb2.RunInput) -> str:
        """Returns what lists call a run of this input, in a line."""


class Pinned(Protocol):
    """An agent under one policy, ready to run."""

    @property
    def graph(self) -> AgentGraph:
        """Its graph, to look at."""

    @property
    def compiled(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Its graph, to run; without a checkpointer."""

    @property
    def turns_remembered(self) -> int:
        """How many earlier runs of its thread a run is told of."""

    @property
    def steps_channel(self) -> str:
        """The channel that records of its steps travel in."""

    @property
    def max_step_bytes(self) -> int | None:
        """What a step may change of the state, as it is stored; None where other limits bound it."""

    def first_state(
        self, assignment: Assignment, *, started_at: datetime, budget: Budget, spend: Spend
    ) -> dict[str, Any]:
        """Returns the state that the graph starts with."""

    def working(
        self, config: RunnableConfig, given: bytes, *, budget: Budget, spend: Spend, attempts: list[CallRecord]
    ) -> AbstractContextManager[tuple[RunnableConfig, HostedSession | None]]:
        """Returns the config that a claimed run is executed with; of a graph that was brought, with what watches it."""

    def context(self, run: RunContext, given: bytes) -> Any:
        """Returns what nodes get as their runtime's context."""

    async def admit(self, run: RunContext, given: bytes, changes: Mapping[str, Any]) -> StepRecord | None:
        """Screens the input, and what a fork changes, before any node runs, where no node does.

        Returns the record of the verdict; None where nothing is screened. Raises InputNotAdmitted, RunWaits.
        """

    def answer(self, text: str) -> Any:
        """Returns what a graph gets for a person's answer."""

    def outcome(self, state: Mapping[str, Any]) -> Outcome:
        """Returns what came of a run that ended in a state."""

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the serialized `RunOutput` of a state."""


class Offered(Protocol):
    """An agent that this runtime offers, and the limits that its new runs get."""

    @property
    def definition(self) -> Definition:
        """What it is."""

    @property
    def limits(self) -> Limits:
        """The limits of new runs."""

    @property
    def outline(self) -> AgentGraph:
        """Its graph, to look at; nodes and state are the same under every policy."""

    @property
    def in_force(self) -> AgentGraph:
        """Its graph under the limits of new runs."""

    @property
    def guard(self) -> GuardClient:
        """What screens words for it."""

    def words_of(self, serialized_input: bytes) -> str:
        """Returns what the caller of a run said; nothing where answers are not screened."""

    def under(self, policy: Any) -> Pinned:
        """Returns it under a policy."""
