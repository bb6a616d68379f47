"""What an agent is: one definition in its own folder, from which follows all that the platform knows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message
from signalbox.v1 import runs_pb2
from signalbox_routing.facts import Record

from services.kit.outcome import Outcome
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.run_key import RunKey
from services.runtime.agents.titles import first_text, title
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import GUARD, Peer
from services.runtime.routing.graph import AgentGraph
from services.runtime.routing.state import Budget

NodesT = TypeVar("NodesT")
PolicyT = TypeVar("PolicyT", bound=Record)
InputT = TypeVar("InputT", bound=Message)
OutputT = TypeVar("OutputT", bound=Message)
DEFAULT_MODEL = "agent"


class InvalidDefinitionError(ValueError):
    """A definition that does not fit the protos, or another one."""


def no_turns(_policy: object) -> int:
    """An agent whose runs know nothing of their thread."""
    return 0


@dataclass(frozen=True, kw_only=True)
class AgentDefinition(Generic[NodesT, PolicyT, InputT, OutputT]):
    """An agent.

    `graph` makes its graph, with state, routers and tools, of nodes and a policy; given the class of the nodes in place
    of nodes that have their services, the graph can be looked at and not run. `wire` gives nodes what they call: the
    `peers` and the `models`, which are roles (`RuntimeSettings.model_of`). `begin` and `result` lead from the input to
    state and from state to the output; `outcome` says what came of the run, by what its state records, and is one of
    `outcomes`. `run_key` says by what a caller has one run and no more. `ids` are
    words that its log lines and spans carry with every decision, taken from state; `turns_remembered` says how many
    earlier runs of its thread a run is told of. `words` takes what the caller said from the input; in its
    light the guard screens what people answer in words of their own. `title` is what lists call a run, in a
    line; `tells_broken_off` says that `result` makes
    sense of any state that a run was in, so that a run that was cancelled has an output, too. `prompts` are
    folders with prompts that it uses beside its own.
    """

    name: str
    description: str
    input: type[InputT]
    output: type[OutputT]
    policy: type[PolicyT]
    budget: Budget
    nodes: type[NodesT]
    graph: Callable[[NodesT | type[NodesT], PolicyT], AgentGraph]
    wire: Callable[[Connections, PolicyT], NodesT]
    begin: Callable[[InputT, Assignment, PolicyT], dict[str, Any]]
    result: Callable[[Mapping[str, Any], InputT], OutputT]
    outcome: Callable[[Mapping[str, Any]], Outcome]
    outcomes: tuple[Outcome, ...]
    peers: tuple[Peer, ...] = ()
    models: tuple[str, ...] = (DEFAULT_MODEL,)
    turns_remembered: Callable[[PolicyT], int] = no_turns
    ids: Mapping[str, Callable[[Mapping[str, Any]], str]] = field(default_factory=dict)
    run_key: Callable[[InputT], RunKey] | None = None
    words: Callable[[InputT], str] | None = None
    title: Callable[[InputT], str] = first_text
    tells_broken_off: bool = False
    prompts: tuple[str, ...] = ()

    @cached_property
    def outline(self) -> AgentGraph:
        """The graph under the policy that is built in, without services: to draw, to compare, to decide again."""
        return self.graph(self.nodes, self.policy())

    @property
    def prompt_packages(self) -> list[str]:
        """The packages whose prompts it uses."""
        own, _, _ = self.nodes.__module__.rpartition(".")
        return [own, *(f"{__package__}.{name}" for name in self.prompts)]

    def check_input(self, given: runs_pb2.RunInput) -> None:
        """Finds nothing wrong: the protos say all that there is to say of an input."""

    def title_of(self, given: runs_pb2.RunInput) -> str:
        """Returns what lists call a run of this input."""
        return title(self.title(getattr(given, self.name)))

    def check(self) -> None:
        """Raises InvalidDefinitionError, with what to do, when the protos have no such agent.

        InvalidGraphError when its graph can't be built.
        """
        for container, message in ((runs_pb2.RunInput, self.input), (runs_pb2.RunOutput, self.output)):
            found = container.DESCRIPTOR.fields_by_name.get(self.name)
            if found is None or found.containing_oneof is None:
                raise InvalidDefinitionError(
                    f"{self.name}: {container.DESCRIPTOR.full_name} has no field of this name in its oneof `agent`; "
                    "add one to protos/signalbox/v1/runs.proto and run `make protos`"
                )
            if found.message_type is None or found.message_type.full_name != message.DESCRIPTOR.full_name:
                raise InvalidDefinitionError(
                    f"{self.name}: {found.full_name} is no {message.DESCRIPTOR.full_name}, as the definition says"
                )
        if self.words is not None and GUARD not in self.peers:
            raise InvalidDefinitionError(
                f"{self.name}: answers are to be screened, and its peers have no guard; add GUARD"
            )
        if self.outline.name != self.name:
            raise InvalidDefinitionError(f"{self.name}: its graph is named {self.outline.name!r}")
        self.outline.check()


AnyDefinition = AgentDefinition[Any, Any, Any, Any]
