"""The id of a decision: the same when a crash has a node run again, so that what it caused can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.memory import InMemorySaver
from structlog.testing import capture_logs

from services.kit.identity.caller import Caller
from services.runtime.routing.run_context import RunContext
from tests.fixtures.replica import Counting

START = {"run_id": "run-1", "status": "in_progress", "iteration_count": 0, "messages": [], "until": 3}


class Dying(InMemorySaver):
    """Saves so many checkpoints, and then nothing: as a process does that is killed before it has written."""

    left = 1_000

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        versions: ChannelVersions,
    ) -> RunnableConfig:
        """Raises OSError once the process is dead."""
        if not self.left:
            raise OSError("killed")
        self.left -= 1
        return await super().aput(config, checkpoint, metadata, versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """A step's writes are in the transaction of its checkpoint: without that there are none."""
        if self.left:
            await super().aput_writes(config, writes, task_id, task_path)


async def routed(saver: Dying, given: dict[str, Any] | None, run_id: str = "run-1") -> list[tuple[str, str]]:
    """Executes a run as far as it gets; returns the rules that fired, with the ids of the decisions."""
    graph = Counting().graph.compile()
    graph.checkpointer = saver
    context = RunContext(run_id, "c-1", Caller("27"), 1, lambda _audience: "", [])
    with capture_logs() as lines:
        try:
            await graph.ainvoke(given, {"configurable": {"thread_id": run_id}}, context=context, durability="sync")
        except OSError:
            assert not saver.left
    return [(line["rule"], line["decision_id"]) for line in lines if line["event"] == "routed"]


@pytest.mark.parametrize("saved", [2, 3])
async def test_a_node_that_runs_again_after_a_crash_decides_under_the_same_id(saved: int) -> None:
    saver = Dying()
    saver.left = saved
    before = await routed(saver, START)
    saver.left = 1_000
    after = await routed(saver, None)
    # What was decided last was not saved, and is decided again.
    assert before[-1] == after[0]
    ids = [decision_id for _, decision_id in (*before, *after[1:])]
    assert len(set(ids)) == len(ids)


async def test_decisions_of_other_runs_have_other_ids() -> None:
    one = await routed(Dying(), START)
    other = await routed(Dying(), {**START, "run_id": "run-2"}, "run-2")
    assert not {decision_id for _, decision_id in one} & {decision_id for _, decision_id in other}
