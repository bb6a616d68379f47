"""Graphs that a pool has loaded: any replica lists them and creates their runs, and only the pool's execute them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from prometheus_client import REGISTRY
from signalbox.v1 import agents_pb2, agents_pb2_grpc, hosted_pb2, runs_pb2, runs_pb2_grpc
from signalbox.v1.agents_pb2_grpc import add_AgentServiceServicer_to_server
from signalbox.v1.runs_pb2_grpc import add_RunServiceServicer_to_server

from services.kit.wire.server import Registration
from services.runtime.api.agent_directory import AgentDirectory
from services.runtime.api.agent_servicer import AgentServicer
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.commands.compat_check import check
from services.runtime.engine.admission import Admission
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.offers import AWAY_S, OfferedByOthersError, Offers
from services.runtime.engine.pins import Pins
from services.runtime.engine.retention import Pruner
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.run_states import NewFork, RunStates
from services.runtime.engine.serde import make_serde
from services.runtime.engine.threads import Fork, ThreadStore
from services.runtime.engine.upkeep import Upkeep
from services.runtime.errors import AgentGone
from tests.fixtures.client import watched
from tests.fixtures.hosted import HostedReplica, hosted_replica, loaded, output_of
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.replica import gateway_word, serving

# For tests that wait for an absence; the others must not see one on a machine that is busy.
SOON_S = 0.4


class Basket(TypedDict, total=False):
    """What somebody buys, and what it costs."""

    prices: list[int]
    total: int
    paid: bool


def basket(*, taxed: bool = False) -> StateGraph[Any, Any, Any, Any]:
    def add(state: Basket) -> Basket:
        return {"total": sum(state["prices"]) * (2 if taxed else 1)}

    def pay(state: Basket) -> Basket:
        return {"paid": interrupt(f"Pay {state['total']}?") == "yes"}

    def is_dear(state: Basket) -> str:
        return "pay" if state["total"] > 100 else END

    graph = StateGraph(Basket)
    graph.add_node("add", add)
    graph.add_node("pay", pay)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", is_dear, ["pay", END])
    if taxed:
        graph.add_node("tax", add)
    return graph


def sample(name: str, **labels: str) -> float:
    found = REGISTRY.get_sample_value(f"signalbox_{name}", labels)
    assert found is not None, f"there is no {name} with {labels}"
    return found


@dataclass(frozen=True)
class Front:
    """A replica without any graph, as the gateway calls it."""

    runs: runs_pb2_grpc.RunServiceAsyncStub
    agents: agents_pb2_grpc.AgentServiceAsyncStub

    async def agent(self, name: str) -> agents_pb2.Agent | None:
        listed = await self.agents.ListAgents(agents_pb2.ListAgentsRequest(), metadata=gateway_word("27"))
        return next((each for each in listed.agents if each.name == name), None)

    async def create(self, **given: Any) -> runs_pb2.Run:
        asked = hosted_pb2.GraphInput(agent="basket")
        asked.input.update(given)
        request = runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph=asked))
        return (await self.runs.CreateRun(request, metadata=gateway_word("27"))).run

    async def left_off(self, run: runs_pb2.Run) -> runs_pb2.Run:
        async for _ in watched(self.runs, gateway_word("27"), run.run_id):
            pass
        return (await self.runs.GetRun(runs_pb2.GetRunRequest(run_id=run.run_id), metadata=gateway_word("27"))).run


@asynccontextmanager
async def front(dsn: str, away_s: float = AWAY_S) -> AsyncIterator[Front]:
    async with hosted_replica(dsn) as replica:
        directory = AgentDirectory({}, Offers(replica.pools.calls, away_s=away_s))

        def runs(callers: Callers) -> Registration:
            pins = Pins(replica.pools.steps, {})
            servicer = RunServicer(replica.engine, replica.store, replica.pools.calls, directory, callers, pins)
            return Registration(add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

        def agents(callers: Callers) -> Registration:
            servicer = AgentServicer(callers, directory)
            return Registration(add_AgentServiceServicer_to_server, servicer, "signalbox.v1.AgentService")

        async with serving(runs) as one, serving(agents) as other:
            yield Front(runs_pb2_grpc.RunServiceStub(one), agents_pb2_grpc.AgentServiceStub(other))


@asynccontextmanager
async def pool(
    dsn: str, graph: StateGraph[Any, Any, Any, Any] | None = None, name: str = "support", **options: Any
) -> AsyncIterator[HostedReplica]:
    async with hosted_replica(
        dsn, loaded(options.pop("agent", "basket"), graph or basket()), pool=name, **options
    ) as replica:
        yield replica


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while not await found():  # noqa: ASYNC110 - the database's clock decides
            await asyncio.sleep(0.05)


async def test_a_graph_of_a_pool_is_listed_and_run_through_a_replica_without_it(platform_dsn: str) -> None:
    async with front(platform_dsn) as caller, pool(platform_dsn):
        listed = await caller.agent("basket")
        assert listed is not None
        assert (listed.pool, listed.HasField("away_since")) == ("support", False)
        assert listed.description == "A graph of a test."
        assert MessageToDict(listed.input_schema)["properties"]["prices"]["items"] == {"type": "integer"}
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.create(prices=["much"])
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "input.graph.input.prices[0]" in (refused.value.details() or "")
        ended = await caller.left_off(await caller.create(prices=[3, 4]))
        assert (ended.state, MessageToDict(ended.output.graph.output)["total"]) == (runs_pb2.RUN_STATE_SUCCEEDED, 7)
        assert ended.graph_version == listed.graph_version
        explained = await caller.runs.ExplainRun(
            runs_pb2.ExplainRunRequest(run_id=ended.run_id), metadata=gateway_word("27")
        )
        assert [node.node for node in explained.run.agent.nodes] == ["add", "pay"]
        asked = await caller.left_off(await caller.create(prices=[300]))
        resume = runs_pb2.ResumeRunRequest(
            run_id=asked.run_id, input_request_id=asked.input_request.input_request_id, answer="yes"
        )
        await caller.runs.ResumeRun(resume, metadata=gateway_word("27"))
        assert MessageToDict((await caller.left_off(asked)).output.graph.output)["paid"] is True


async def test_runs_of_a_pool_that_is_away_wait_for_it(platform_dsn: str) -> None:
    async with front(platform_dsn, SOON_S) as caller:
        async with pool(platform_dsn, away_s=SOON_S):
            pass

        async def is_away() -> bool:
            listed = await caller.agent("basket")
            return listed is not None and listed.HasField("away_since")

        await until(is_away)
        created = await caller.create(prices=[3])
        assert (created.state, created.waiting_for) == (runs_pb2.RUN_STATE_PENDING, "the pool 'support'")
        async with hosted_replica(platform_dsn) as counting:
            async with counting.pools.calls.connection() as connection:
                await connection.execute("UPDATE platform.agents SET seen_at = now() - interval '1 h'")
            await Admission(counting.pools).count()
            upkeep = Upkeep(counting.pools, Pins(counting.pools.steps, {}), owner="counting", lease_s=15)
            # The pool's, and neither the platform's nor something that runs call.
            assert await upkeep.waiting() == {}
            for metric in ("runs_pending", "runs_waiting_for_pool"):
                counts = [sample(metric, pool=name) for name in ("support", "runtime")]
                assert counts == [1, 0], metric
            assert sample("runs_pending_oldest_age_seconds", pool="support") > 0
            assert sample("runs_pending_oldest_age_seconds", pool="runtime") == 0
        async with pool(platform_dsn, agent="other", name="sales") as other:
            assert await check(platform_dsn, [each.definition for each in other.agents.values()]) == (0, [])
        # The name is the pool's for as long as a run waits for it.
        with pytest.raises(OfferedByOthersError, match=r"'support'.*SIGNALBOX_POOL_SUCCEEDS=support"):
            async with pool(platform_dsn, name="sales", away_s=SOON_S):
                pass
        async with pool(platform_dsn, away_s=SOON_S):
            ended = await caller.left_off(created)
        assert (ended.state, ended.waiting_for) == (runs_pb2.RUN_STATE_SUCCEEDED, "")
        await until(is_away)
        async with pool(platform_dsn, name="sales", away_s=SOON_S):
            listed = await caller.agent("basket")
            assert listed is not None
            assert listed.pool == "sales"


async def test_a_pool_goes_on_with_the_runs_of_the_one_that_it_succeeds(platform_dsn: str) -> None:
    async with front(platform_dsn) as caller:
        async with pool(platform_dsn):
            asked = await caller.left_off(await caller.create(prices=[300]))
        async with pool(platform_dsn, name="sales", succeeds=["support"]):
            resume = runs_pb2.ResumeRunRequest(
                run_id=asked.run_id, input_request_id=asked.input_request.input_request_id, answer="no"
            )
            await caller.runs.ResumeRun(resume, metadata=gateway_word("27"))
            assert (await caller.left_off(asked)).state == runs_pb2.RUN_STATE_SUCCEEDED


async def test_versions_of_a_pool_follow_each_other_and_another_pool_is_refused(platform_dsn: str) -> None:
    async with front(platform_dsn) as caller, pool(platform_dsn) as old:
        with pytest.raises(OfferedByOthersError, match="'basket' is offered by the pool 'support'"):
            async with pool(platform_dsn, name="sales"):
                pass
        async with pool(platform_dsn, basket(taxed=True)) as new:
            versions = {old.agents["basket"].outline.version, new.agents["basket"].outline.version}
            listed = await caller.agent("basket")
            assert listed is not None
            assert listed.graph_version == new.agents["basket"].outline.version
            ended = [await caller.left_off(await caller.create(prices=[3])) for _ in range(3)]
        assert {run.state for run in ended} == {runs_pb2.RUN_STATE_SUCCEEDED}
        assert {run.graph_version for run in ended} <= versions


async def test_what_a_pool_has_taken_away_is_gone(platform_dsn: str) -> None:
    async with front(platform_dsn, SOON_S) as caller:
        async with pool(platform_dsn, away_s=SOON_S):
            pass
        async with pool(platform_dsn, agent="other", away_s=SOON_S):

            async def is_gone() -> bool:
                return await caller.agent("basket") is None

            await until(is_gone)
            assert await caller.agent("other")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await caller.create(prices=[3])
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_runs_are_listed_to_callers_by_any_agent_that_is_known(platform_dsn: str) -> None:
    async with front(platform_dsn) as caller, pool(platform_dsn):
        listed = await caller.runs.ListRuns(runs_pb2.ListRunsRequest(agent="basket"), metadata=gateway_word("27"))
        assert not listed.runs
        unknown = runs_pb2.ListRunsRequest(agent="bucket")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.runs.ListRuns(unknown, metadata=gateway_word("27"))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        # Who does not say who asks is not told which there are.
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.runs.ListRuns(unknown)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_what_another_pool_has_taken_is_created_for_that_pool(platform_dsn: str) -> None:
    async with pool(platform_dsn) as support:
        support.offers.lost = frozenset({"basket"})
        run = await support.create("basket", {"prices": [3]})
        assert run.state == "PENDING"
        directory = AgentDirectory(
            support.agents, Offers(support.pools.calls), "support", lambda name: name not in support.offers.lost
        )
        theirs = agents_pb2.Agent(name="basket", pool="sales").SerializeToString()
        async with support.pools.calls.connection() as connection:
            await connection.execute("UPDATE platform.agents SET pool = 'sales', listed = %s", [theirs])
        assert [each.pool for each in await directory.listed()] == ["sales"]
        support.offers.lost = frozenset()
        support.engine.look("basket")
        assert (await support.left_off(run)).state == "SUCCEEDED"


async def test_runs_of_a_pool_are_forked_through_a_replica_without_it(platform_dsn: str) -> None:
    async with hosted_replica(platform_dsn) as here, pool(platform_dsn) as support:
        run = await support.run("basket", {"prices": [3]}, thread_id="shopping")
        threads = ThreadStore(here.pools.calls, make_serde(), here.store, here.agents)
        states = RunStates(here.pools.calls, make_serde(), here.store, here.agents)
        _, steps = await threads.state(run.caller, "shopping", run.run_id, None)
        _, by_checkpoint = await threads.fork(run.caller, Fork("shopping", run.run_id, steps[1].checkpoint_id))
        by_step = await states.fork(run.caller, NewFork(run.run_id, 0))
        for made in (by_checkpoint, by_step):
            assert made is not None
            await here.engine.tell_of_work(made.agent)
            ended = await support.left_off(made)
            assert (ended.state, output_of(ended)["total"]) == ("SUCCEEDED", 3), ended.error
        async with here.pools.calls.connection() as connection:
            await connection.execute("DELETE FROM platform.agents")
        with pytest.raises(AgentGone):
            await threads.fork(run.caller, Fork("shopping", run.run_id, steps[1].checkpoint_id))
        with pytest.raises(AgentGone):
            await states.fork(run.caller, NewFork(run.run_id, 0))


async def test_a_large_schema_is_told_of_one_agent_only(platform_dsn: str) -> None:
    fields = {f"field_{number}": str for number in range(1000)}
    wide = StateGraph(TypedDict("Wide", fields, total=False))  # type: ignore[operator]
    wide.add_node("end", lambda _: {"field_0": "said"})
    wide.add_edge(START, "end")
    async with front(platform_dsn) as caller, pool(platform_dsn, wide):
        listed = await caller.agent("basket")
        assert listed is not None
        assert (listed.schemas_omitted, listed.HasField("input_schema")) == (True, False)
        request = agents_pb2.ListAgentsRequest(name="basket")
        [whole] = (await caller.agents.ListAgents(request, metadata=gateway_word("27"))).agents
        assert MessageToDict(whole.input_schema)["properties"].keys() == fields.keys()


async def test_the_history_of_a_pool_s_runs_is_tidied_up_by_the_pool(platform_dsn: str) -> None:
    policies = {"default": RetentionPolicy(history_minutes=1e-6)}
    async with front(platform_dsn) as caller, pool(platform_dsn) as support:
        run = await caller.left_off(await caller.create(prices=[3]))
        pools = support.pools

        async def kept(pool_name: str) -> int:
            history = CheckpointHistory(pools.steps, make_serde())
            await Pruner(pools.calls, history, policies, pool_name=pool_name, agents=["basket"]).prune(wait=True)
            return len(
                [
                    each
                    async for each in history.select(
                        {"configurable": {"thread_id": run.run_id}}, metadata_filter=None, before=None, limit=None
                    )
                ]
            )

        assert await kept("runtime") > 1
        assert await kept("support") == 1


async def test_a_pool_s_policy_removes_nothing_but_the_history_of_its_own_runs(platform_dsn: str) -> None:
    short = RetentionPolicy(1e-6, 1e-9, 1e-9, 1e-9, 1e-9)
    async with (
        front(platform_dsn) as caller,
        pool(platform_dsn) as support,
        pool(platform_dsn, agent="other", name="b"),
    ):
        run = await caller.left_off(await caller.create(prices=[3]))
        history = CheckpointHistory(support.pools.steps, make_serde())

        async def removed(name: str, agent: str) -> set[str]:
            pruner = Pruner(support.pools.calls, history, {"default": short}, pool_name=name, agents=[agent])
            batch = await pruner.prune(wait=True)
            assert batch is not None
            return {removal.kind for removal in batch.removals}

        assert await removed("b", "other") == set()
        assert await removed("support", "basket") == set()
        assert (await caller.left_off(run)).state == runs_pb2.RUN_STATE_SUCCEEDED
        assert "runs" in await removed("runtime", "")
