"""Explanations of runs: a page of their decisions in words, and with the first page the run's story."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import runs_pb2
from signalbox_routing.facts import Record

from services.kit.identity.caller import Caller
from services.runtime.agents.policies import UnknownLimitTypeError
from services.runtime.api.agent_directory import AgentDirectory
from services.runtime.api.outline_wire import outline_proto
from services.runtime.api.story_wire import costs_proto, story_proto
from services.runtime.api.wire import explanation_proto
from services.runtime.calls.prices import Prices, tokens_by_model
from services.runtime.engine.pages import fitting
from services.runtime.engine.pins import Pins
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord
from services.runtime.engine.rights import has_rights_of
from services.runtime.engine.store import found_run
from services.runtime.engine.story import RunStory
from services.runtime.hosted.lifting.lifted import LIFTED, TABLE
from services.runtime.routing.explaining import Explainer, Nearness
from services.runtime.routing.graph import BEFORE_TABLES

Row = Mapping[str, Any]
# A run's graph stops long before it has made so many.
MOST_DECISIONS = 10_000


async def decisions_of(
    connection: AsyncConnection[Any], run_id: str, *, after: int = 0, limit: int = MOST_DECISIONS
) -> list[dict[str, Any]]:
    """Returns the decisions of a run after a sequence number, in order."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(query("list_decisions"), {"run_id": run_id, "after": after, "limit": limit})
    return await cursor.fetchall()


class Explanations:
    """Explains runs by the tables that this release has of their agents."""

    def __init__(self, pool: AsyncConnectionPool[Any], directory: AgentDirectory, pins: Pins, prices: Prices) -> None:
        self._prices = prices
        self._directory = directory
        self._pool = pool
        self._agents = directory.here
        self._pins = pins
        routers = {router.name: router for agent in directory.here.values() for router in agent.in_force.routers}
        self._routers = routers.keys()
        # Made when they are first asked: most replicas explain decisions of few of their tables.
        self._explainer_of = cache(lambda name: Explainer(routers[name]))

    async def of(
        self, run_id: str, caller: Caller, *, after: int, limit: int
    ) -> tuple[list[dict[str, Any]], list[runs_pb2.DecisionExplanation | None], runs_pb2.RunExplanation | None]:
        """Returns a page of decisions and one more, if there are more; the page in words; and on the first the story.

        The words may be of fewer, as one message takes; None stands for a decision that this release can't explain.
        What was asked and answered is left out for a caller who lacks a role that the run was made with.
        Raises RunNotFound.
        """
        story = None
        async with self._pool.connection() as connection, connection.transaction():
            # One moment for all that is read: what is charged adds up while the run goes on.
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            run = await found_run(connection, run_id, caller)
            rows = await decisions_of(connection, run_id, after=after, limit=MOST_DECISIONS if not after else limit + 1)
            if not after:
                cursor = connection.cursor(row_factory=dict_row)
                await cursor.execute(query("run_story"), {"run_id": run_id})
                events = await cursor.fetchall()
                happened = [event for event in events if event["sequence"] is not None]
                story = RunStory(run, rows, happened, events[0]["read_at"])
        policy = await self._policy_of(run)
        told = fitting(self._told(row, policy) for row in rows[:limit])
        words = await self._story(story, rows, policy) if story else None
        if words and not has_rights_of(caller, run):
            for asked in words.questions:
                asked.ClearField("question")
                asked.ClearField("answer")
        return rows[: limit + 1], told, words

    def _told(self, row: Row, policy: Record | None) -> runs_pb2.DecisionExplanation | None:
        explainer = self._explainer(row)
        told = explainer.stored(*_asked(row), policy) if explainer else None
        return explanation_proto(row["sequence"], told) if told else None

    async def _story(self, story: RunStory, rows: Sequence[Row], policy: Record | None) -> runs_pb2.RunExplanation:
        breakers: list[tuple[str, int, Nearness]] = []
        for row in rows:
            if explainer := self._explainer(row):
                near = explainer.breakers(*_asked(row), policy)
                breakers += [(row["router"], row["sequence"], each) for each in near]
        proto = story_proto(story, breakers)
        calls = (call for step in story.route for call in step.calls)
        proto.costs.CopyFrom(costs_proto(tokens_by_model(calls), self._prices))
        if agent := self._agents.get(story.run.agent):
            proto.agent.CopyFrom(outline_proto(agent.in_force, policy or agent.limits.policy))
        elif outline := await self._directory.outline(story.run.agent):
            proto.agent.CopyFrom(outline)
        return proto

    def _explainer(self, row: Row) -> Explainer | None:
        by_code = (row["decided"] or {"by": TABLE})["by"] not in (TABLE, LIFTED)
        if by_code or row["rule"] in BEFORE_TABLES or row["router"] not in self._routers:
            return None
        return self._explainer_of(row["router"])

    async def _policy_of(self, run: RunRecord) -> Record | None:
        """Returns the policy that a run is pinned to, as far as this release knows it."""
        if run.agent not in self._agents or run.policy_id is None:
            return None
        try:
            return await self._pins.policy_of(run, self._agents[run.agent].definition)
        except UnknownLimitTypeError:
            return None


def _asked(row: Row) -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """What an explainer is asked of a decision: rule, facts, grounds and the policy's version."""
    read = [row["grounds"], *(tried["grounds"] for tried in row["rejected_rules"])]
    return row["rule"], row["facts"], dict(ChainMap(*read)), row["policy_version"]
