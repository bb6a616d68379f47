"""Hosted graphs as the engine has them: beside `AgentDefinition` and `Agent`, under the same protocol."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any

from google.protobuf import struct_pb2
from langchain_core.runnables import RunnableConfig
from pydantic import Field
from pydantic_core import to_jsonable_python
from signalbox.v1 import hosted_pb2, runs_pb2
from signalbox_routing.facts import Record
from signalbox_routing.terms import InvalidTableError

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.outcome import Outcome
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.policies import Limits
from services.runtime.agents.run_key import RunKey
from services.runtime.agents.titles import title
from services.runtime.calls.connections import Connections
from services.runtime.calls.guard_client import GuardClient
from services.runtime.engine.serde import make_serde
from services.runtime.errors import ConfigTooLate
from services.runtime.hosted.adapter import STEPS_CHANNEL, Graph, adapted
from services.runtime.hosted.graph import HostedGraph
from services.runtime.hosted.interrupts import value_of
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.hosted.lifting.lifted import LiftedGraph, PathBranch, lifted
from services.runtime.hosted.limits_in_code import merged_policy, together
from services.runtime.hosted.loading import ANYTHING, LoadedGraph
from services.runtime.hosted.schemas import Schemas, plain
from services.runtime.hosted.screening import PATH, admit, text_at, texts_of
from services.runtime.hosted.session import HostedSession, current_session
from services.runtime.hosted.types import allowed_types
from services.runtime.routing.recorder import CallRecord, StepRecord
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import Budget, Spend
from services.runtime.routing.storable import presentable_parts

BUDGET = Budget(model_calls=200, tool_calls=500, tokens=2_000_000, wall_time_s=3600.0)
FIELD = "graph"
_RESERVED = ("checkpoint_", "__pregel_", "__signalbox_")
_TOO_LONG = 1_000_000
# Whose message a title is, as LangChain and chat completions call them.
_PEOPLE = ("human", "user")


@dataclass(frozen=True)
class HostedPolicy:
    """The limits of a hosted graph.

    `screened_input` is a path into the input, such as `messages[-1].content`, to what the guard screens before any node
    runs; nothing is screened where it is empty.
    """

    node_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 600.0
    max_steps: Annotated[int, Field(ge=1, le=10_000)] = 1000
    max_step_bytes: Annotated[int, Field(ge=10_000, le=500_000_000)] = 32_000_000
    screened_input: Annotated[str, Field(max_length=200, pattern=PATH)] = ""


class HostedDefinition:
    """A graph that was brought: what the engine, the carrier and the servicers ask of a definition."""

    input = hosted_pb2.GraphInput
    output = hosted_pb2.GraphOutput
    budget = BUDGET
    # What else came of it, its output says in its own words.
    outcomes = (Outcome.DONE, Outcome.BLOCKED)
    # Nothing of it is screened: the team that brings a graph says what may be asked of it.
    words: Callable[[Any], str] | None = None
    run_key: Callable[[Any], RunKey] | None = None

    def __init__(self, loaded: LoadedGraph) -> None:
        self.name = loaded.name
        # The tools of executors that graphs may call, as these were listed when graphs were loaded.
        self.catalogs = loaded.catalogs
        self.description = loaded.description
        self._loaded = loaded
        self._graph = loaded.graph
        self._source = loaded.source
        self.store_ttl = loaded.store_ttl
        # None where the database can't compare vectors.
        self.store_index = loaded.store_index

    @cached_property
    def policy(self) -> type[HostedPolicy]:
        """Type of its limits: those of every hosted graph, and those of the tables that stand in its code.

        Raises InvalidAgentsError.
        """
        try:
            return merged_policy(HostedPolicy, self.lifted.given)
        except InvalidTableError as error:
            raise InvalidAgentsError([f"graph {self.name!r}: {error}"]) from error

    def limits_to_try(self, policy: Record) -> Record:
        """Returns the limits that decisions can be tried with: a policy, and what lifted tables have in the code."""
        return together(policy, self.lifted.limits)

    @cached_property
    def schemas(self) -> Schemas:
        """What it takes and brings."""
        return Schemas.of(self._graph)

    @cached_property
    def outline(self) -> HostedGraph:
        """The graph, to look at."""
        return self.outline_under(self.policy())

    def outline_under(self, policy: Any) -> HostedGraph:
        """The graph under a policy, to look at."""
        own = (self._graph.config or {}).get("recursion_limit", policy.max_steps)
        steps, version = min(policy.max_steps, own), self._source.version
        tools = itertools.chain.from_iterable(self.catalogs.values())
        lifted = self.lifted.under(policy)
        return HostedGraph.of(self.name, self._graph, version, self.schemas, steps, lifted, tools)

    @cached_property
    def adapted(self) -> Graph:
        """The graph, to run."""
        return adapted(self._graph, self.name, self._source, self.lifted, make_serde(self.types))

    @property
    def graph_given(self) -> Graph:
        """The graph as it was brought."""
        return self._graph

    @cached_property
    def lifted(self) -> LiftedGraph:
        """The tables that its path functions have been lifted to."""
        return lifted(self._graph, self.name)

    def place_of(self, branch: PathBranch) -> str:
        """Returns the file and line of a path function."""
        return self._source.of(branch.branch.path)

    @cached_property
    def types(self) -> set[tuple[str, str]]:
        """The types of its own that its state may hold, by module and name."""
        return allowed_types(self._loaded)

    def check_input(self, given: runs_pb2.RunInput) -> None:
        """Checks an input by the graph's own schemas. Raises InvalidRequest, ConfigTooLate."""
        check_input(self.schemas, given)
        self.check_config(given.graph)

    def check_config(self, asked: hosted_pb2.GraphInput) -> None:
        """Checks that what a run gives its config comes in time to have any effect. Raises ConfigTooLate."""
        made_by = self._loaded.made_by
        given = {name for name, value in _configurable(asked).items() if value is not None}
        if late := sorted(given if ANYTHING in made_by else given & made_by):
            said = f"the graph {self.name!r} was made once, and its function asked for {', '.join(late)} then"
            raise ConfigTooLate(f"{said}: a run that gives that would get the graph without it")

    def title_of(self, given: runs_pb2.RunInput) -> str:
        """Returns what lists call a run of this input: what a person said first in it, else all of it as JSON."""
        return title_of(given)


def title_of(given: runs_pb2.RunInput) -> str:
    """Returns what lists call a run of this input, whichever graph it is for."""
    values = plain(given.graph.input)
    return title(said_first(values) or json.dumps(values, ensure_ascii=False))


def said_first(values: Mapping[str, Any]) -> str:
    """Returns the first message of a person in a graph's input, or its only text; empty where there is neither."""
    messages = values.get("messages")
    for message in messages if isinstance(messages, list) else [messages]:
        if isinstance(message, str):
            return message
        if isinstance(message, Mapping) and message.get("role", message.get("type")) in _PEOPLE:
            content = message.get("content")
            parts = content if isinstance(content, list) else [content]
            said = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
            return " ".join(text for text in said if isinstance(text, str))
        if isinstance(message, list) and len(message) == 2 and message[0] in _PEOPLE:
            return str(message[1])
    texts = [value for value in values.values() if isinstance(value, str)]
    return texts[0] if len(values) == 1 and texts else ""


class PinnedHosted:
    """A hosted graph under one policy."""

    turns_remembered = 0
    steps_channel = STEPS_CHANNEL

    @property
    def max_step_bytes(self) -> int:
        """What a step may change of the state, as it is stored."""
        return self._policy.max_step_bytes

    def __init__(
        self, definition: HostedDefinition, policy: HostedPolicy, connections: Connections | None = None
    ) -> None:
        self._definition = definition
        self._connections = connections
        self._policy = policy
        self.graph = definition.outline_under(policy)
        self.compiled = definition.adapted

    def first_state(
        self, assignment: Assignment, *, started_at: datetime, budget: Budget, spend: Spend
    ) -> dict[str, Any]:
        """Returns what the graph begins with. Raises ConfigTooLate, also where who took the run did not know."""
        del started_at, budget, spend
        self._definition.check_config(_asked(assignment.input))
        return plain(_asked(assignment.input).input)

    @contextmanager
    def working(
        self, config: RunnableConfig, given: bytes, *, budget: Budget, spend: Spend, attempts: list[CallRecord]
    ) -> Iterator[tuple[RunnableConfig, HostedSession]]:
        """Opens a session for a claimed run, and returns the config that its calls are noted by."""
        session = HostedSession(
            spend,
            budget,
            attempts,
            node_timeout_s=self._policy.node_timeout_s,
            limits=self._policy,
            run_id=config["metadata"]["run_id"],
            max_steps=config["recursion_limit"],
            store_ttl=self._definition.store_ttl,
            store_index=self._definition.store_index,
            connections=self._connections,
            catalogs=self._definition.catalogs,
        )
        own = _configurable(_asked(given))
        with session.open() as handler:
            yield (
                {**config, "configurable": {**own, **config["configurable"]}, "callbacks": [handler]},
                session,
            )

    def context(self, run: RunContext, given: bytes) -> Any:
        """Returns the value of the graph's own `context_schema`; None where it has none."""
        if session := current_session():
            session.run = run
        asked = _asked(given)
        return plain(asked.context) if asked.HasField("context") or self._definition.schemas.context else None

    async def admit(self, run: RunContext, given: bytes, changes: Mapping[str, Any]) -> StepRecord | None:
        """Has the guard screen what the policy points at in an input, and all that a fork changes in the state.

        Returns the record of its verdict; None where nothing is screened. Raises InputNotAdmitted, RunWaits.
        """
        session = current_session()
        if self._connections is None or session is None or not self._policy.screened_input:
            return None
        text = text_at(self._policy.screened_input, plain(_asked(given).input))
        if text and changes:
            text = "\n".join([text, *texts_of(changes)])
        return await admit(session, self._connections.guard, run, self._definition.name, self.graph.entry, text)

    def answer(self, text: str) -> Any:
        """Returns what a graph gets for a person's answer."""
        return value_of(text)

    def outcome(self, state: Mapping[str, Any]) -> Outcome:
        """Returns that it is done: the graph came to its end, and says no more that the platform understands."""
        del state
        return Outcome.DONE

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the serialized `RunOutput` of the fields that the graph gives back."""
        del assigned_input
        # LangGraph gives back nothing where nothing was written.
        values: dict[str, Any] = {} if state is None else {"root": state}
        if isinstance(state, Mapping):
            values = {name: value for name, value in state.items() if not name.startswith("__")}
        said = hosted_pb2.GraphOutput(agent=self._definition.name, output=as_struct(values))
        return runs_pb2.RunOutput(graph=said).SerializeToString()


class HostedAgent:
    """A hosted graph that this runtime offers, and the limits that its new runs get."""

    def __init__(self, definition: HostedDefinition, limits: Limits, connections: Connections | None = None) -> None:
        self.definition = definition
        self._connections = connections
        self.limits = limits
        self._pinned: dict[Record, PinnedHosted] = {}

    @property
    def outline(self) -> HostedGraph:
        """The graph, to look at."""
        return self.definition.outline

    @cached_property
    def in_force(self) -> HostedGraph:
        """The graph under the limits of new runs."""
        return self.definition.outline_under(self.limits.policy)

    @property
    def guard(self) -> GuardClient:
        """Raises LookupError: nothing of it is screened."""
        raise LookupError(f"nothing of the hosted graph {self.definition.name!r} is screened")

    def words_of(self, serialized_input: bytes) -> str:
        """Returns nothing: answers are not screened."""
        del serialized_input
        return ""

    def under(self, policy: Any) -> PinnedHosted:
        """Returns it under a policy; made once for each."""
        if policy not in self._pinned:
            self._pinned[policy] = PinnedHosted(self.definition, policy, self._connections)
        return self._pinned[policy]


def check_input(schemas: Schemas, given: runs_pb2.RunInput) -> None:
    """Checks an input of a hosted graph by its schemas. Raises InvalidRequest."""
    asked = given.graph
    keys = plain(asked.configurable) if asked.HasField("configurable") else {}
    if reserved := [key for key in keys if _is_reserved(key)]:
        path = f"input.graph.configurable.{reserved[0]}"
        violation = FieldViolation(path, "a key that LangGraph keeps for itself")
        raise InvalidRequest(f"{reserved[0]} is LangGraph's own", violations=[violation])
    schemas.check(plain(asked.input), plain(asked.context), has_context=asked.HasField("context"))


def _configurable(asked: hosted_pb2.GraphInput) -> dict[str, Any]:
    """Returns what a graph reads from its config: its context, too, as graphs with a `config_schema` do."""
    context = {key: value for key, value in plain(asked.context).items() if not _is_reserved(key)}
    return {**context, **plain(asked.configurable)}


def _is_reserved(key: str) -> bool:
    return key == "thread_id" or key.startswith(_RESERVED)


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values as JSON: messages and models as they dump themselves, what JSON has no word for as text."""
    plain_values = to_jsonable_python(values, fallback=str, serialize_unknown=True, bytes_mode="base64")
    found: dict[str, Any] = presentable_parts(plain_values, _TOO_LONG)
    return found


def as_struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns values as JSON in a message."""
    struct = struct_pb2.Struct()
    struct.update(json_values(values))
    return struct


def _asked(serialized: bytes) -> hosted_pb2.GraphInput:
    return runs_pb2.RunInput.FromString(serialized).graph
