"""A case replayed: the agent's graph, with what its nodes heard then, each decision held against the recorded one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from datetime import UTC
from functools import cache
from typing import Any, cast

from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from signalbox.v1 import cases_pb2, runs_pb2

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.kit.models.chain import Completes
from services.kit.models.prompt_files import prompts_digest
from services.runtime.agents.agent import PinnedAgent
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.definition import AnyDefinition
from services.runtime.agents.policies import UnknownLimitTypeError, restored
from services.runtime.agents.registry import definitions
from services.runtime.calls.connections import Connections
from services.runtime.calls.recording import ANSWER, PERSON, THREAD, TURNS, turns_of
from services.runtime.cases.answers import AnsweringChannel, AnsweringModel, Answers
from services.runtime.cases.errors import AnswerMissing, CaseUnfit
from services.runtime.engine.serde import make_serde
from services.runtime.routing.recorder import DecisionRecord, StepRecord
from services.runtime.routing.redeciding import with_limits
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import NOTHING_SPENT, STATUS, Budget
from services.runtime.routing.table import Record
from services.runtime.routing.waiting import RunWaits
from services.runtime.settings import CallSettings

# Ends that come from outside of the graph: what nodes would have heard after them is in no recording.
_FROM_OUTSIDE = (runs_pb2.RUN_STATE_CANCELLED,)
_DAMAGED_TURNS = "what the run was told of its thread is damaged"
# Whole numbers from here on are in no policy.
_TOO_LARGE = 2**63


@dataclass(frozen=True)
class ChangedDecision:
    """The first decision that came out otherwise; `recorded` is None where the run had made no more."""

    sequence: int
    node: str
    recorded: runs_pb2.Decision | None
    made: DecisionRecord


@dataclass
class Replayed:
    """What came of a replay: decisions that are the same, where it left the way, and what it decided from there on."""

    same: int = 0
    parting: ChangedDecision | None = None
    after: list[tuple[str, DecisionRecord]] = field(default_factory=list)
    status: str = ""
    lacks: AnswerMissing | None = None

    @property
    def is_same(self) -> bool:
        """Whether everything was decided as it was."""
        return self.parting is None and self.lacks is None


class CaseReplay:
    """Replays a case under its own policy, or with some limits set otherwise.

    With a `model`, it goes on where it leaves the recorded way, and asks that model from there on. Services are never
    asked: what the recording does not hold ends it. Raises CaseUnfit.
    """

    def __init__(
        self,
        case: cases_pb2.Case,
        limits: Mapping[str, str],
        *,
        settings: CallSettings,
        model: Completes | None = None,
    ) -> None:
        self._case = case
        self._answers = Answers(case.answers)
        self._goes_on = model is not None
        definition = definitions().get(case.run.agent)
        if definition is None:
            raise CaseUnfit(f"there is no agent {case.run.agent!r} here")
        connections = _AnsweredConnections(definition, self._answers, settings, model)
        self._agent = PinnedAgent(definition, _policy_of(case, definition, limits), cast(Connections, connections))
        self.graph_is_another = case.run.graph_version not in ("", definition.outline.version)
        self.prompts_are_others = case.run.policy.prompts not in ("", prompts_digest(definition.prompt_packages))
        self._replayed = Replayed()

    async def run(self) -> Replayed:
        """Replays it, to its end or to where it can't go on."""
        graph = self._agent.compiled
        graph.checkpointer = InMemorySaver(serde=make_serde())
        run, replayed = self._case.run, self._replayed
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
        replayed.lacks = self._answers.missing
        if replayed.lacks and replayed.same == len(self._case.decisions) and run.state in _FROM_OUTSIDE:
            replayed.lacks = None
        if replayed.lacks is None and (replayed.parting is None or self._goes_on):
            state = await graph.aget_state(config)
            replayed.status = str(state.values.get(STATUS, ""))
        return replayed

    async def _go_on(self, graph: Any, given: Any, config: RunnableConfig) -> Interrupt | None:
        """Streams the graph's steps, until it ends, or asks a person, or there is nothing to go on with."""
        asked: Interrupt | None = None
        steps = graph.astream(given, config, context=self._context(), stream_mode="updates", durability="sync")
        async with aclosing(steps):
            async for update in steps:
                for changed in update.values():
                    if isinstance(changed, tuple):
                        asked = changed[0]
                        continue
                    for step in (changed or {}).get("steps") or ():
                        if self._answers.missing:
                            raise self._answers.missing
                        if not self._compare(step):
                            return None
        if self._answers.missing:
            raise self._answers.missing
        return asked

    def _compare(self, step: StepRecord) -> bool:
        """Holds a step's decision against the recorded one; returns whether to go on."""
        made, replayed = step["decision"], self._replayed
        if made is None:
            return True
        if replayed.parting:
            replayed.after.append((step["node"], made))
            return True
        recorded = self._case.decisions[replayed.same] if replayed.same < len(self._case.decisions) else None
        if recorded and way_of(recorded) == (made["router"], made["rule"], made["destination"]):
            replayed.same += 1
            return True
        replayed.parting = ChangedDecision(replayed.same + 1, step["node"], recorded, made)
        self._answers.has_left_the_way = True
        return self._goes_on

    def _first_state(self) -> dict[str, Any]:
        run = self._case.run
        turns = self._turns() if any(each.source == THREAD for each in self._case.answers) else []
        assignment = Assignment(run.run_id, run.correlation_id, _caller(run), run.input.SerializeToString(), turns)
        budget = Budget(
            model_calls=run.budget.model_calls,
            tool_calls=run.budget.tool_calls,
            tokens=run.budget.tokens,
            wall_time_s=float(run.budget.wall_time_s),
        )
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

    def _context(self) -> RunContext:
        run = self._case.run
        return RunContext(run.run_id, run.correlation_id, _caller(run), 1, _no_token, [], _no_token, [])


class _AnsweredConnections(Connections):
    """What nodes call, where everything has been said already."""

    def __init__(
        self, definition: AnyDefinition, answers: Answers, settings: CallSettings, model: Completes | None
    ) -> None:
        channels = {peer.name: cast(Any, AnsweringChannel(peer.name, answers)) for peer in definition.peers}
        super().__init__(settings, channels, AsyncExitStack())
        self._source = cache(lambda _role, _retries: AnsweringModel(answers, model))


def way_of(decision: runs_pb2.Decision) -> tuple[str, str, str]:
    """Returns router, rule and destination of a decision."""
    return decision.router, decision.rule, decision.destination


def _caller(run: runs_pb2.Run) -> Caller:
    return Caller(run.caller.subject, frozenset(run.caller.roles))


def _no_token(_audience: str) -> str:
    return ""


def _policy_of(case: cases_pb2.Case, definition: AnyDefinition, changed: Mapping[str, str]) -> Record:
    try:
        recorded = {limit.name: _plain(limit.value) for limit in case.run.policy.limits}
        return with_limits(restored(definition.policy, recorded), changed)
    except (UnknownLimitTypeError, ValueError) as error:
        raise CaseUnfit(f"the case's policy can't be used: {error}") from error
    except InvalidRequest as error:
        wrong = "; ".join(f"{each.field}: {each.description}" for each in error.violations)
        raise CaseUnfit(f"{error.message}: {wrong}") from error


def _plain(value: struct_pb2.Value) -> Any:
    plain = json_format.MessageToDict(value)
    return int(plain) if isinstance(plain, float) and plain.is_integer() and abs(plain) < _TOO_LARGE else plain
