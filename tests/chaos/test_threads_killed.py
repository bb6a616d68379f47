"""Threads under every policy for an active run, while replicas are killed: one run at a time, in order, none lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

import grpc
from signalbox.v1 import runs_pb2

from services.kit.errors import error_detail
from tests.chaos.book import no_orphan
from tests.chaos.conftest import Extent
from tests.chaos.deployment import Deployment
from tests.chaos.load import SUBJECTS
from tests.chaos.script import question_for
from tests.chaos.test_runtime_killed import kill_again_and_again
from tests.fixtures.client import RunClient, question

REFUSE, QUEUE, CANCEL, ROLL_BACK = (
    runs_pb2.ACTIVE_RUN_POLICY_REFUSE,
    runs_pb2.ACTIVE_RUN_POLICY_QUEUE,
    runs_pb2.ACTIVE_RUN_POLICY_CANCEL_ACTIVE,
    runs_pb2.ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE,
)
CALLERS = 3
SUCCEEDED, CANCELLED = runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_CANCELLED
# Each run of a thread with the one before it: how both ended, when this one was created, when it took its first step
# and the other its last. Not when they began and ended: a statement's time is a little older than what it sees.
_PAIRS = """
    SELECT p.state, r.state, p.ended_at, r.created_at,
        (SELECT max(decided_at) FROM platform.decisions WHERE run_id = p.run_id),
        (SELECT min(decided_at) FROM platform.decisions WHERE run_id = r.run_id)
    FROM (
        SELECT *, lag(run_id) OVER (ORDER BY created_at, run_id) AS before FROM platform.runs WHERE thread_id = %s
    ) AS r
    JOIN platform.runs AS p ON p.run_id = r.before ORDER BY r.created_at, r.run_id
"""


@dataclass
class Conversation:
    """A thread in which several callers of one subject ask, none of them waiting for the others."""

    policy: runs_pb2.ActiveRunPolicy
    thread_id: str = field(default_factory=lambda: str(uuid4()))
    told: list[runs_pb2.Run] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    async def ask_on(self, client: RunClient, stopping: asyncio.Event) -> None:
        """Asks again and again."""
        while not stopping.is_set():
            create = question(
                question_for(self.thread_id),
                request_id=str(uuid4()),
                thread_id=self.thread_id,
                active_run_policy=self.policy,
            )
            try:
                events = [event async for event in client.execute(create)]
            except grpc.aio.AioRpcError as error:
                detail = error_detail(error)
                if detail.reason != "THREAD_BUSY":
                    raise
                self.refused.add(detail.metadata["active_run_id"])
                await asyncio.sleep(0.05)
                continue
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            self.told.append(events[-1].run_ended.run)


async def test_one_run_of_a_thread_at_a_time(deployed: Deployment, extent: Extent) -> None:
    conversations = [Conversation(policy) for policy in (REFUSE, QUEUE, CANCEL, ROLL_BACK)]
    stopping = asyncio.Event()
    async with (
        grpc.aio.insecure_channel(deployed.stack.gateway_address) as channel,
        asyncio.TaskGroup() as callers,
    ):
        for conversation, subject in zip(conversations, SUBJECTS, strict=False):
            client = RunClient(channel, deployed.stack.token(subject))
            for _ in range(CALLERS):
                callers.create_task(conversation.ask_on(client, stopping))
        try:
            await kill_again_and_again(deployed, extent.kills // 2, extent.random())
        finally:
            stopping.set()
    await no_orphan(deployed)
    refusing, queueing, cancelling, rolling_back = conversations
    for conversation in conversations:
        await check(deployed, conversation)
    epochs = [run.epoch for conversation in conversations for run in conversation.told]
    assert max(epochs) > 1, "no run was ever taken over: the kills hit nothing"
    assert {run.state for run in refusing.told + queueing.told} == {SUCCEEDED}
    assert refusing.refused <= {run.run_id for run in refusing.told}, "refused for a run that nobody was told of"
    for giving_way in (cancelling, rolling_back):
        assert {run.state for run in giving_way.told} == {SUCCEEDED, CANCELLED}
    rolled_back = {run.run_id for run in rolling_back.told if run.rolled_back_by}
    assert {run.run_id for run in rolling_back.told if run.state == CANCELLED} <= rolled_back
    assert not any(run.rolled_back_by for each in (refusing, queueing, cancelling) for run in each.told)


async def check(deployed: Deployment, conversation: Conversation) -> None:
    """Checks in the database that no run of the thread began before the one before it had ended."""
    pairs = await deployed.rows(_PAIRS, conversation.thread_id)
    assert len(pairs) == len(conversation.told) - 1
    for state_before, state, ended_before, created, last_before, first in pairs:
        assert first is not None or state == "CANCELLED"
        assert first is None or last_before is None or first > last_before
        assert conversation.policy != REFUSE or created > ended_before
        assert state_before == "SUCCEEDED" or conversation.policy in (CANCEL, ROLL_BACK)
