"""A case of a hosted graph replayed: its nodes give back what they returned, path functions decide again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.errors import GraphRecursionError
from langgraph.graph import END
from signalbox.v1 import cases_pb2

from services.kit.telemetry.logs import get_logger
from services.runtime.calls.recording import THREAD
from services.runtime.cases.answers import Answers
from services.runtime.cases.comparison import DecisionComparison, Replayed
from services.runtime.cases.errors import CaseUnfit
from services.runtime.cases.recorded_run import budget_of, context_of, policy_of
from services.runtime.engine.serde import make_serde
from services.runtime.hosted.adapter import STEPS_CHANNEL
from services.runtime.hosted.definition import HostedDefinition, PinnedHosted
from services.runtime.hosted.node_results import STATE, result_of, state_of
from services.runtime.hosted.schemas import plain
from services.runtime.hosted.screening import admission_router
from services.runtime.routing.state import NOTHING_SPENT

log = get_logger()


class HostedCaseReplay:
    """Replays a case of a hosted graph under its own limits, or with some set otherwise. Raises CaseUnfit."""

    other_prompts: Sequence[str] = ()

    def __init__(self, case: cases_pb2.Case, limits: Mapping[str, str], definition: HostedDefinition) -> None:
        if case.run.HasField("forked_from"):
            raise CaseUnfit("the run goes on from a step of another run, which its case does not hold")
        self._case = case
        self._answers = Answers(case.answers)
        self._comparison = DecisionComparison(case, self._answers, goes_on=False)
        self._serde = make_serde(definition.types)
        self._agent = PinnedHosted(definition, policy_of(case, definition.policy, limits))
        self.graph_is_another = case.run.graph_version not in ("", definition.outline.version)

    async def run(self) -> Replayed:
        """Replays it, to its end or to where it parts."""
        run, comparison = self._case.run, self._comparison
        # What the guard said of the input is no decision of the graph's; what it did not let in went no further.
        for each in self._case.decisions[:1]:
            if each.router == admission_router(run.agent):
                comparison.replayed.same = 1
                if each.destination == END:
                    return comparison.ended("not admitted")
        graph = copy(self._agent.compiled)
        graph.checkpointer = saver = _ComparingSaver(self._serde, self._comparison)
        config: RunnableConfig = {
            "configurable": {"thread_id": self._thread_id}, "recursion_limit": self._agent.graph.max_steps,
            "metadata": {"run_id": run.run_id},
        }  # fmt: skip
        given, budget = run.input.SerializeToString(), budget_of(run)
        with self._agent.working(config, given, budget=budget, spend=NOTHING_SPENT, attempts=[]) as (own, session):
            session.replayed, status = self._result, ""
            try:
                self._begin_from_thread(saver)
                context = self._agent.context(context_of(run), given)
                await graph.ainvoke(plain(run.input.graph.input), own, context=context, durability="sync")
                status = "completed"
            except _Parted:
                pass
            except GraphRecursionError:
                status = "recursion_limit"
            except Exception as error:  # noqa: BLE001 - whatever nodes failed with, as in the run
                log.info("the replayed graph failed", error=type(error).__name__)
                if session.failed is not None and comparison.hold(session.failed):
                    status = "failed"
        return comparison.ended(status)

    def _result(self, source: str, place: str, asked: str) -> Any:
        answer = self._answers.give(source, place, asked)
        try:
            return result_of(self._serde, answer)
        except (ValueError, TypeError) as error:
            raise self._answers.lack(f"what {place} returned is damaged") from error

    @property
    def _thread_id(self) -> str:
        """What path functions find in their config, as in the run."""
        return self._case.run.thread_id or self._case.run.run_id

    def _begin_from_thread(self, saver: InMemorySaver) -> None:
        if not any((each.source, each.method) == (THREAD, STATE) for each in self._case.answers):
            return
        try:
            state = state_of(self._serde, self._answers.give(THREAD, STATE))
        except (ValueError, TypeError) as error:
            raise CaseUnfit("the state that the run began with is damaged") from error
        for namespace, checkpoint, metadata in state:
            place: RunnableConfig = {"configurable": {"thread_id": self._thread_id, "checkpoint_ns": namespace}}
            saver.put(place, checkpoint, metadata, checkpoint["channel_versions"])


class _Parted(Exception):
    """The replay has left the way."""


class _ComparingSaver(InMemorySaver):
    """Holds the records of each step against what was recorded, when they are committed."""

    def __init__(self, serde: SerializerProtocol, comparison: DecisionComparison) -> None:
        super().__init__(serde=serde)
        self._comparison = comparison

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Saves a checkpoint. Raises _Parted."""
        steps = checkpoint["channel_values"].get(STEPS_CHANNEL) or [] if STEPS_CHANNEL in new_versions else []
        if not all(self._comparison.hold(step) for step in steps):
            raise _Parted
        return await super().aput(config, checkpoint, metadata, new_versions)
