"""A case replayed: the agent's graph, with what its nodes heard then, each decision held against the recorded one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import UTC
from importlib.util import find_spec
from typing import Any, Final, cast

from google.protobuf.message import DecodeError
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from signalbox.v1 import cases_pb2

from services.kit.models.chain import Completes
from services.kit.models.prompt_files import prompts_digest
from services.runtime.agents.agent import PinnedAgent
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.definition import AnyDefinition
from services.runtime.agents.registry import definitions
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import EVALUATOR, GUARD
from services.runtime.calls.recording import ANSWER, PERSON, THREAD, TURNS, turns_of
from services.runtime.cases.answers import AnsweringChannel, AnsweringModel, Answers
from services.runtime.cases.comparison import DecisionComparison, Replayed
from services.runtime.cases.errors import AnswerMissing, CaseUnfit
from services.runtime.cases.recorded_run import budget_of, caller_of, context_of, policy_of
from services.runtime.engine.serde import make_serde
from services.runtime.routing.state import NOTHING_SPENT, STATUS
from services.runtime.routing.waiting import RunWaits
from services.runtime.settings import CallSettings

# Whose prompts can be compared: an image has no other service's, a checkout has all.
JUDGES: Final = {
    peer.name: package for peer in (GUARD, EVALUATOR) if find_spec(package := f"services.{peer.name}") is not None
}
_DAMAGED_TURNS = "what the run was told of its thread is damaged"
# Whole numbers from here on are in no policy.
_TOO_LARGE = 2**63


class CaseReplay:
    """Replays a case under its own policy, or with some limits set otherwise.

    Where it `goes_on`, it asks the models of the settings from where it leaves the recorded way; their connections
    close with the stack. Services are never asked: what the recording does not hold ends it. Raises CaseUnfit.
    """

    def __init__(
        self,
        case: cases_pb2.Case,
        limits: Mapping[str, str],
        *,
        settings: CallSettings,
        stack: AsyncExitStack,
        goes_on: bool = False,
    ) -> None:
        self._case = case
        self._answers = Answers(case.answers)
        self._comparison = DecisionComparison(case, self._answers, goes_on=goes_on)
        definition = definitions().get(case.run.agent)
        if definition is None:
            raise CaseUnfit(f"there is no agent {case.run.agent!r} here")
        if problems := [each for role in definition.models if goes_on for each in settings.problems_of_model(role)]:
            raise CaseUnfit("--continue asks models:\n" + "\n".join(problems))
        connections = _AnsweredConnections(definition, self._answers, settings, stack, goes_on=goes_on)
        self._agent = PinnedAgent(
            definition, policy_of(case, definition.policy, limits), cast(Connections, connections)
        )
        self.graph_is_another = case.run.graph_version not in ("", definition.outline.version)
        self.other_prompts = list(_other_prompts(case, prompts_digest(definition.prompt_packages)))

    async def run(self) -> Replayed:
        """Replays it, to its end or to where it can't go on."""
        graph = self._agent.compiled
        graph.checkpointer = InMemorySaver(serde=make_serde())
        run = self._case.run
        config: RunnableConfig = {
            "configurable": {"thread_id": run.run_id}, "recursion_limit": self._agent.graph.max_steps,
        }  # fmt: skip
        given: Any = self._first_state()
        try:
            while (asked := await self._go_on(graph, given, config)) is not None:
                answer = self._answers.give(PERSON, ANSWER)
                given = Command(resume={asked.id: self._answers.read(answer)})
        except AnswerMissing:
            pass  # the answers know; so they do when a node swallows it
        except RunWaits as waits:
            self._answers.lack(
                f"{waits.wait.dependency} was away ({waits.wait.cause}), and what came then is not recorded"
            )
        state = await graph.aget_state(config)
        return self._comparison.ended(str(state.values.get(STATUS, "")))

    async def _go_on(self, graph: Any, given: Any, config: RunnableConfig) -> Interrupt | None:
        """Streams the graph's steps, until it ends, or asks a person, or there is nothing to go on with."""
        asked: Interrupt | None = None
        steps = graph.astream(
            given, config, context=context_of(self._case.run), stream_mode="updates", durability="sync"
        )
        async with aclosing(steps):
            async for update in steps:
                for changed in update.values():
                    if isinstance(changed, tuple):
                        asked = changed[0]
                        continue
                    for step in (changed or {}).get("steps") or ():
                        if not self._comparison.hold(step):
                            return None
        if self._answers.missing:
            raise self._answers.missing
        return asked

    def _first_state(self) -> dict[str, Any]:
        run = self._case.run
        turns = self._turns() if any(each.source == THREAD for each in self._case.answers) else []
        assignment = Assignment(run.run_id, run.correlation_id, caller_of(run), run.input.SerializeToString(), turns)
        budget = budget_of(run)
        began = (run.start_time if run.HasField("start_time") else run.create_time).ToDatetime(tzinfo=UTC)
        try:
            return self._agent.first_state(assignment, started_at=began, budget=budget, spend=NOTHING_SPENT)
        except DecodeError as error:
            raise CaseUnfit(_DAMAGED_TURNS) from error

    def _turns(self) -> list[tuple[bytes, bytes]]:
        try:
            return turns_of(self._answers.give(THREAD, TURNS))
        except (ValueError, TypeError, RecursionError) as error:
            raise CaseUnfit(_DAMAGED_TURNS) from error


class _AnsweredConnections(Connections):
    """What nodes call, where everything has been said already."""

    def __init__(
        self,
        definition: AnyDefinition,
        answers: Answers,
        settings: CallSettings,
        stack: AsyncExitStack,
        *,
        goes_on: bool,
    ) -> None:
        channels = {peer.name: cast(Any, AnsweringChannel(peer.name, answers)) for peer in definition.peers}
        super().__init__(settings, channels, stack)
        self._answers, self._goes_on = answers, goes_on

    def _open_source(self, role: str, retries: int) -> Completes:
        return AnsweringModel(self._answers, self._open_chain(role, retries) if self._goes_on else None)


def _other_prompts(case: cases_pb2.Case, here: str) -> Iterator[str]:
    """Yields whose prompts are others than those that the run's models were asked with, and what those were."""
    if case.run.policy.prompts not in ("", here):
        yield f"the prompts are others than the run's, {case.run.policy.prompts}"
    for service, package in JUDGES.items():
        asked = {call.prompts for each in case.decisions for call in each.calls if call.service == service}
        asked -= {"", prompts_digest([package])}
        if asked:
            yield f"the {service}'s prompts are others than the run's, {', '.join(sorted(asked))}"
