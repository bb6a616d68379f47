"""Batches over a real database and a runtime that does what a test tells it: each item once, whoever dies when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc
import pytest
from psycopg import AsyncConnection
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc
from structlog.testing import capture_logs

from services.batches import runs, store
from services.batches.answers import NewItem
from services.batches.claims import BatchClaims, Claim
from services.batches.database import Pool, connected, open_pool
from services.batches.errors import BatchDatabaseAway, BatchNotFound, TooManyBatches
from services.batches.hindrances import Hindrance
from services.batches.pacer import Pacer, Pacing
from services.batches.records import ENDED_ITEMS, OVER, BatchRecord, BatchState, BegunItem, ItemState
from services.batches.store import BatchLimits, BatchStore
from services.kit.errors import SignalboxError
from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair
from services.kit.settings import ServiceSettings
from services.kit.wire.server import Registration, Service, running
from services.kit.wire.tasks import stop
from tests.integration.batches.fake_runtime import Away, FakeRuntime, NotOfTheBatch, Odd, QuotaUsedUp

KEYS = generate_keypair()
CALLER = Caller("27", frozenset({"reader"}), {"tenant": "north"})
LIMITS = BatchLimits(share=4, items=1000, bytes=1 << 20, item_bytes=1 << 16, at_once=9, life_s=3600.0, kept_s=3600.0)
LEASE_S = 1.0
PATIENCE_S = 60.0


@dataclass
class Platform:
    """A database, a runtime, and as many replicas of the service for batches as a test starts."""

    pool: Pool
    store: BatchStore
    runtime: FakeRuntime
    channel: grpc.aio.Channel

    def replica(self, most: int = 8, clock: Callable[[], float] = time.time) -> asyncio.Task[None]:
        """Starts a replica; cancelled with `die`, it is gone without a word."""
        claims = BatchClaims(self.pool, lease_s=LEASE_S, kept_s=LIMITS.kept_s, clock=clock)
        pacing = Pacing(claims, runs_pb2_grpc.RunServiceStub(self.channel), KEYS.private_pem, most=most)
        return asyncio.create_task(pacing.run())

    async def started(self, questions: Iterable[str], caller: Caller = CALLER, **fields: Any) -> str:
        """Creates and starts a batch with a question an item."""
        given = [item(question) for question in questions]
        batch = await self.store.create(caller, **{"request_id": "", "name": "", "max_runs": 0, **fields})
        await self.store.add(caller, batch.batch_id, 1, given)
        await self.store.start(caller, batch.batch_id, len(given))
        return batch.batch_id

    async def until(self, batch_id: str, holds: Callable[[BatchRecord], bool], caller: Caller = CALLER) -> BatchRecord:
        """Waits for a batch to come to something."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(batch := await self.store.get(caller, batch_id)):  # noqa: ASYNC110 - a row of a database
                await asyncio.sleep(0.02)
        return batch

    async def over(self, batch_id: str) -> BatchRecord:
        """Waits for the end of a batch."""
        return await self.until(batch_id, lambda batch: batch.state in OVER)

    async def results(self, batch_id: str) -> list[tuple[int, str, ItemState, bytes]]:
        """The results of a batch, but for what names a run."""
        told = []
        for each in await self.store.items(batch_id, 0, 1000):
            run = runs_pb2.Run.FromString(each.run)
            for name in ("run_id", "trace_id", "labels"):
                run.ClearField(name)
            told.append((each.number, each.key, each.state, run.SerializeToString(deterministic=True)))
        return told


def item(question: str) -> NewItem:
    """An item that asks a question."""
    asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question))
    return NewItem(question, asked.SerializeToString(deterministic=True))


def has_ended(count: int, batch: BatchRecord) -> bool:
    """Tells whether as many items have ended."""
    return sum(batch.counts.get(state, 0) for state in ENDED_ITEMS) >= count


@pytest.fixture
async def open_platform(platform_dsn: str) -> AsyncIterator[Callable[..., Awaitable[Platform]]]:
    """Opens a platform, with limits of its own."""
    async with AsyncExitStack() as stack:

        async def opened(**limits: Any) -> Platform:
            runtime = FakeRuntime(KEYS.public_pem)  # type: ignore[abstract]
            pool = await stack.enter_async_context(open_pool(platform_dsn, size=8))
            channel = await stack.enter_async_context(serving(runtime))
            return Platform(pool, BatchStore(pool, replace(LIMITS, **limits)), runtime, channel)

        yield opened


@asynccontextmanager
async def serving(runtime: FakeRuntime) -> AsyncIterator[grpc.aio.Channel]:
    """Serves a runtime inside the context."""

    async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
        add = runs_pb2_grpc.add_RunServiceServicer_to_server
        return Service([Registration(add, runtime, "signalbox.v1.RunService")])

    async with (
        running("runtime", ServiceSettings(shutdown_grace_s=1), build) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        yield channel


async def die(replica: asyncio.Task[None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a replica as `kill -9` does: what it had begun is left as it is."""

    async def says_nothing(*_: object) -> None:
        return None

    with monkeypatch.context() as patched:
        patched.setattr(BatchClaims, "let_go", says_nothing)
        await stop(replica)


@pytest.mark.faults
async def test_each_item_runs_once_while_replicas_die_and_the_results_are_the_same_bytes(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = await open_platform()
    questions = [f"question {number}" for number in range(200)]
    undisturbed = await platform.started(questions)
    replicas = [platform.replica(), platform.replica()]
    await platform.over(undisturbed)

    platform.runtime.most_active = 0
    batch_id = await platform.started(questions)
    for kill in range(3):
        await platform.until(batch_id, partial(has_ended, 40 * (kill + 1)))
        for replica in replicas:
            await die(replica, monkeypatch)
        replicas = [platform.replica(), platform.replica()]
    batch = await platform.over(batch_id)
    assert (batch.state, batch.counts) == (BatchState.ENDED, {ItemState.SUCCEEDED: 200})
    assert batch.epoch >= 4
    run_ids = [each.run_id for each in await platform.store.items(batch_id, 0, 1000)]
    assert len(set(run_ids)) == 200
    assert len(platform.runtime.runs) == 400
    assert platform.runtime.most_active <= LIMITS.share
    ends = [each.ended_as for each in await platform.store.ended(batch_id, 0, 1000, with_runs=False)]
    assert ends == sorted(set(ends))
    assert len(ends) == 200
    assert await platform.results(batch_id) == await platform.results(undisturbed)
    await stop(*replicas)


async def test_a_replica_that_has_lost_its_claim_writes_nothing_more(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    batch_id = await platform.started(["a", "b"])
    claims = BatchClaims(platform.pool, lease_s=0.001, kept_s=60.0)
    first = await claims.claim()
    assert first is not None
    [begun] = await claims.begin(first, 1)
    async with asyncio.timeout(PATIENCE_S):
        while (second := await claims.claim()) is None:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.005)
    run = runs_pb2.Run(run_id="00000000-0000-7000-8000-000000000001", state=runs_pb2.RUN_STATE_SUCCEEDED)
    assert not await claims.end(first, begun.number, ItemState.SUCCEEDED, run, "")
    assert await claims.begin(first, 1) == []
    assert await claims.renew(first, pace=1, held_up_by="") is None
    assert not await claims.finish(first)
    assert [each.number for each in await claims.begun(second)] == [begun.number]
    assert await claims.end(second, begun.number, ItemState.SUCCEEDED, run, "")
    # Once, however often it is said.
    assert not await claims.end(second, begun.number, ItemState.FAILED, run, "")
    assert (await platform.store.get(CALLER, batch_id)).counts == {ItemState.PENDING: 1, ItemState.SUCCEEDED: 1}


async def test_items_that_end_while_a_batch_is_read_are_counted_once(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = await open_platform()
    batch_id = await platform.started(["a", "b", "c", "d", "e", "f"])
    claims = BatchClaims(platform.pool, lease_s=60.0, kept_s=60.0)
    claim = await claims.claim()
    assert claim is not None
    begun = iter(await claims.begin(claim, 6))
    execute, ending = AsyncConnection.execute, False

    async def one_ends_before(self: Any, *arguments: Any, **fields: Any) -> Any:
        nonlocal ending
        if not ending and (item := next(begun, None)):
            ending = True
            await claims.end(claim, item.number, ItemState.REFUSED, None, "no")
            ending = False
        return await execute(self, *arguments, **fields)

    monkeypatch.setattr(AsyncConnection, "execute", one_ends_before)
    for _ in range(6):
        batch = await platform.store.get(CALLER, batch_id)
        assert (batch.ended_sequence, sum(batch.counts.values())) == (batch.counts.get(ItemState.REFUSED, 0), 6)
    assert batch.counts == {ItemState.REFUSED: 6}


async def test_a_claim_ends_with_its_batch_and_is_none_to_a_batch_that_is_run_again(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    batch_id = await platform.started(["a"])
    claims = BatchClaims(platform.pool, lease_s=60.0, kept_s=60.0)
    claim = await claims.claim()
    assert claim is not None
    [begun] = await claims.begin(claim, 1)
    assert await claims.end(claim, begun.number, ItemState.REFUSED, None, "no")
    assert await claims.finish(claim)
    assert await claims.renew(claim, pace=1, held_up_by="") is None
    await platform.store.retry(CALLER, batch_id)
    assert await claims.renew(claim, pace=1, held_up_by="") is None
    assert await claims.begin(claim, 1) == []


async def test_of_callers_who_wait_the_one_with_the_fewest_batches_paced_comes_first(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform, other = await open_platform(at_once=9), Caller("99")
    first = [await platform.started(["a"]) for _ in range(3)]
    last = [await platform.started(["a"], caller=other) for _ in range(2)]
    claims = BatchClaims(platform.pool, lease_s=60.0, kept_s=60.0)
    claimed = [claim.batch.batch_id for _ in range(5) if (claim := await claims.claim())]
    assert claimed == [first[0], last[0], first[1], last[1], first[2]]


async def test_who_has_all_places_makes_room_for_who_has_none(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.batches.pacer.ROUND_S", 0.02)
    platform, other = await open_platform(), Caller("99")
    platform.runtime.ends = False
    mine = [await platform.started(["a"]) for _ in range(5)]
    replica = platform.replica(most=3)
    for batch_id in mine[:3]:
        await platform.until(batch_id, lambda batch: batch.counts.get(ItemState.RUNNING) == 1)
    theirs = await platform.started(["a"], caller=other)
    await platform.until(theirs, lambda batch: batch.counts.get(ItemState.RUNNING) == 1, other)
    # Two and one: nobody makes room again, and what was left goes on where there is room.
    epochs = [(await platform.store.get(CALLER, batch_id)).epoch for batch_id in mine]
    assert epochs == [2, 2, 2, 1, 1]
    platform.runtime.ends = True
    for run in platform.runtime.runs.values():
        platform.runtime.end(run)
    for batch_id in mine:
        assert (await platform.over(batch_id)).counts == {ItemState.SUCCEEDED: 1}
    assert len(platform.runtime.runs) == 6
    await stop(replica)


async def test_a_batch_that_ends_while_it_is_to_make_room_is_no_failure(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.batches.pacer.ROUND_S", 0.02)
    platform = await open_platform()
    crowding = BatchClaims.crowding

    async def ended_meanwhile(claims: BatchClaims, batch_ids: Sequence[str]) -> str | None:
        found = await crowding(claims, batch_ids)
        platform.runtime.ends = True
        for run in platform.runtime.runs.values():
            platform.runtime.end(run)
        paced = {task for task in asyncio.all_tasks() if task.get_name() in {f"batch {each}" for each in batch_ids}}
        await asyncio.gather(*paced)
        return found

    platform.runtime.ends = False
    mine = [await platform.started(["a"]) for _ in range(2)]
    with capture_logs() as logs:
        replica = platform.replica(most=2)
        for batch_id in mine:
            await platform.until(batch_id, lambda batch: batch.counts.get(ItemState.RUNNING) == 1)
        monkeypatch.setattr(BatchClaims, "crowding", ended_meanwhile)
        theirs = await platform.started(["a"], caller=Caller("99"))
        await platform.until(theirs, lambda batch: batch.state in OVER, Caller("99"))
    await stop(replica)
    assert [line for line in logs if line["log_level"] == "error"] == []


async def test_a_replica_whose_clock_is_off_leaves_batches_to_others_until_it_is_right(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    platform.runtime.ends, ahead_s = False, 0.0
    batch_id = await platform.started(["a"])
    replica = platform.replica(clock=lambda: time.time() + ahead_s)
    await platform.until(batch_id, lambda batch: batch.counts.get(ItemState.RUNNING) == 1)
    ahead_s = -3600.0
    batch = await platform.until(batch_id, lambda batch: batch.held_up_by.startswith("no replica paces it"))
    assert batch.epoch == 2
    other = platform.replica()
    await platform.until(batch_id, lambda batch: batch.epoch == 3 and not batch.held_up_by)
    await stop(other)
    ahead_s = 0.0
    platform.runtime.ends = True
    for run in platform.runtime.runs.values():
        platform.runtime.end(run)
    assert (await platform.over(batch_id)).counts == {ItemState.SUCCEEDED: 1}
    assert len(platform.runtime.runs) == 1
    await stop(replica)


async def test_a_replica_that_stops_leaves_its_batches_at_once(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    platform.runtime.ends = False
    batch_id = await platform.started(["a", "b", "c"])
    replica = platform.replica()
    await platform.until(batch_id, lambda batch: batch.counts.get(ItemState.RUNNING) == 2)
    await stop(replica)
    claimed = await BatchClaims(platform.pool, lease_s=3600.0, kept_s=60.0).claim()
    assert claimed is not None
    assert claimed.batch.caller == CALLER
    assert claimed.batch.caller.claims == CALLER.claims


async def test_refusals_and_outages_hold_a_batch_up_and_cost_no_item(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    failures = [QuotaUsedUp("three runs are under way already", retry_after_s=2.0), Away("the database is away")]
    platform.runtime.failures += failures
    batch_id = await platform.started(["a", "b", "c", "d"])
    replica = platform.replica()
    held_up = await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    assert held_up.pace == 1
    assert "TOO_MANY_RUNS_AT_ONCE" in held_up.held_up_by or "DATABASE_AWAY" in held_up.held_up_by
    batch = await platform.over(batch_id)
    assert batch.counts == {ItemState.SUCCEEDED: 4}
    assert batch.held_up_by == ""
    await stop(replica)


async def test_a_quota_that_is_raised_is_noticed_before_it_would_have_been_there_again(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LONGEST_TOLD_S", 0.5)
    platform = await open_platform()
    platform.runtime.failing["a"] = QuotaUsedUp("the tokens of this hour are used up", retry_after_s=3600.0)
    batch_id = await platform.started(["a", "b"])
    replica = platform.replica()
    await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    platform.runtime.failing.clear()
    batch = await platform.over(batch_id)
    assert (batch.counts, batch.held_up_by) == ({ItemState.SUCCEEDED: 2}, "")
    await stop(replica)


async def test_what_runs_wait_for_is_told_until_they_wait_no_longer(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.batches.pacer.ROUND_S", 0.02)
    monkeypatch.setattr("services.batches.hindrances.TRIED_S", 0.2)
    platform = await open_platform()
    platform.runtime.ends, platform.runtime.waits_for = False, "the model"
    batch_id = await platform.started(["a", "b"])
    replica = platform.replica()
    await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    told = [(await platform.store.get(CALLER, batch_id)).held_up_by for _ in range(50)]
    assert set(told) == {"the model is away"}
    # Another run begins and ends, and these wait as before.
    platform.runtime.waits_for, platform.runtime.ends = "", True
    other_id = await platform.started(["c"])
    await platform.over(other_id)
    assert (await platform.store.get(CALLER, batch_id)).held_up_by == "the model is away"
    platform.runtime.tries_again.set()
    platform.runtime.ends = False
    batch = await platform.until(batch_id, lambda batch: not batch.held_up_by)
    assert not ENDED_ITEMS & batch.counts.keys()
    await stop(replica)


async def test_a_runtime_that_is_back_is_told_though_no_run_says_anything(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.batches.hindrances.TRIED_S", 0.1)
    platform = await open_platform()
    platform.runtime.ends, platform.runtime.cuts = False, True
    batch_id = await platform.started(["a"])
    replica = platform.replica()
    batch = await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    assert batch.held_up_by == "DATABASE_AWAY: the replica is going away"
    platform.runtime.cuts = False
    batch = await platform.until(batch_id, lambda batch: not batch.held_up_by)
    assert batch.counts == {ItemState.RUNNING: 1}
    await stop(replica)


async def test_a_batch_that_all_wait_of_for_a_person_says_so_and_begins_more_where_there_is_room(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    platform.runtime.asking = {"a"}
    batch_id = await platform.started(["a", "b", "c"], max_runs=1)
    replica = platform.replica()
    batch = await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    assert (batch.held_up_by, batch.counts) == ("a person's answer", {ItemState.PENDING: 2, ItemState.RUNNING: 1})
    wider_id = await platform.started(["a", "b", "c"], max_runs=2)
    batch = await platform.until(wider_id, lambda batch: bool(batch.held_up_by))
    assert (batch.held_up_by, batch.counts) == ("a person's answer", {ItemState.RUNNING: 1, ItemState.SUCCEEDED: 2})
    await stop(replica)


async def test_a_batch_that_no_replica_has_in_hand_says_so(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    platform.runtime.ends = False
    batch_id = await platform.started(["a"])
    batch = await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    assert batch.held_up_by.startswith("no replica paces it now")
    [listed] = await platform.store.page(CALLER, subject="", before=None, limit=1)
    assert listed.held_up_by == batch.held_up_by
    replica = platform.replica()
    await platform.until(batch_id, lambda batch: not batch.held_up_by)
    await stop(replica)


async def test_an_item_that_is_refused_costs_itself_and_can_be_retried(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    replica = platform.replica()
    platform.runtime.failing["c"] = NotOfTheBatch("a batch's token is for runs of that batch")
    batch_id = await platform.started(["a", "no", "c"])
    batch = await platform.over(batch_id)
    assert batch.counts == {ItemState.SUCCEEDED: 1, ItemState.REFUSED: 2}
    [refused, elsewhere] = [
        each for each in await platform.store.items(batch_id, 0, 10) if each.state is ItemState.REFUSED
    ]
    assert (refused.number, refused.error) == (2, "no such question is answered")
    assert "outside of this batch" in elsewhere.error
    platform.runtime.failing.clear()
    _, again = await platform.store.retry(CALLER, batch_id)
    assert again == 2
    batch = await platform.over(batch_id)
    assert batch.counts == {ItemState.SUCCEEDED: 2, ItemState.REFUSED: 1}
    assert {request: count for request, count in platform.runtime.asked.items() if "-2-" in request} == {
        f"batch-{batch_id}-2-0": 1,
        f"batch-{batch_id}-2-1": 1,
    }
    await stop(replica)


async def test_an_item_whose_run_is_gone_before_its_end_is_noted_can_be_retried(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    platform.runtime.ends = False
    batch_id = await platform.started(["a"])
    replica = platform.replica()
    await platform.until(batch_id, lambda _: len(platform.runtime.active) == 1)
    await stop(replica)
    # Nobody notes the end for longer than runs are kept.
    platform.runtime.runs.clear()
    platform.runtime.ends = True
    replica = platform.replica()
    assert (await platform.over(batch_id)).counts == {ItemState.REFUSED: 1}
    [refused] = await platform.store.items(batch_id, 0, 10)
    assert "its run was removed" in refused.error
    await platform.store.retry(CALLER, batch_id)
    assert (await platform.over(batch_id)).counts == {ItemState.SUCCEEDED: 1}
    await stop(replica)


async def test_a_batch_that_is_cancelled_stops_its_runs_and_begins_no_more(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    platform.runtime.ends = False
    replica = platform.replica()
    batch_id = await platform.started(["a", "b", "c", "d", "e"], max_runs=2)
    await platform.until(batch_id, lambda _: len(platform.runtime.active) == 2)
    await platform.store.cancel(CALLER, batch_id)
    batch = await platform.over(batch_id)
    assert batch.state is BatchState.CANCELLED
    assert batch.counts == {ItemState.CANCELLED: 5}
    assert len(platform.runtime.runs) == 2
    await stop(replica)


async def test_a_batch_acts_for_its_caller_for_its_life_and_is_kept_for_a_time(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform(life_s=1.0)
    platform.runtime.ends = False
    batch_id = await platform.started(["a", "b", "c"], max_runs=1)
    left_alone = (await platform.store.create(CALLER, request_id="", name="", max_runs=0)).batch_id
    replica = platform.replica()
    batch = await platform.over(batch_id)
    assert (batch.state, batch.counts) == (BatchState.CANCELLED, {ItemState.CANCELLED: 3})
    # What it knew of its caller goes with its end; their roles say who may see its outputs.
    assert (batch.caller.claims, batch.caller.roles) == ({}, CALLER.roles)
    with pytest.raises(BatchNotFound):
        await platform.until(left_alone, lambda batch: batch.state in OVER)
    await stop(replica)


async def test_a_replica_goes_on_looking_for_batches_whatever_the_database_says(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    batch_id = await platform.started(["a"])
    async with connected(platform.pool) as connection:
        await connection.execute("ALTER TABLE platform.batches RENAME TO mislaid")
        with capture_logs() as logs:
            replica = platform.replica()
            async with asyncio.timeout(PATIENCE_S):
                while not any("failed to look" in line["event"] for line in logs):  # noqa: ASYNC110 - lines of a log
                    await asyncio.sleep(0.02)
        await connection.execute("ALTER TABLE platform.mislaid RENAME TO batches")
    assert (await platform.over(batch_id)).counts == {ItemState.SUCCEEDED: 1}
    await stop(replica)


async def test_items_are_taken_in_hand_again_after_a_lost_answer_and_after_a_failed_end(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = await open_platform()
    begin, end = BatchClaims.begin, BatchClaims.end
    fails = ["begin", "end"]

    async def begun_unheard(self: BatchClaims, claim: Claim, limit: int) -> list[BegunItem]:
        begun = await begin(self, claim, limit)
        if "begin" in fails:
            fails.remove("begin")
            raise BatchDatabaseAway("the connection broke behind the commit")
        return begun

    async def ended_wrong(self: BatchClaims, *arguments: Any) -> bool:
        if "end" in fails:
            fails.remove("end")
            raise RuntimeError("something else than the database being away")
        return await end(self, *arguments)

    monkeypatch.setattr(BatchClaims, "begin", begun_unheard)
    monkeypatch.setattr(BatchClaims, "end", ended_wrong)
    replica = platform.replica()
    batch_id = await platform.started(["a", "b", "c"])
    assert (await platform.over(batch_id)).counts == {ItemState.SUCCEEDED: 3}
    assert (fails, len(platform.runtime.runs)) == ([], 3)
    await stop(replica)


async def test_an_item_that_keeps_failing_holds_no_other_up_and_is_refused(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = await open_platform()
    platform.runtime.failing["odd"] = Odd("a bug")
    hindrances: list[Hindrance] = []
    monkeypatch.setattr(runs, "LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(Pacer, "_hindered", lambda _, hindrance: hindrances.append(hindrance))
    replica = platform.replica()
    batch_id = await platform.started(["odd", "b", "c", "d"])
    assert (await platform.over(batch_id)).counts == {ItemState.SUCCEEDED: 3, ItemState.REFUSED: 1}
    assert hindrances == []
    [refused, *_] = await platform.store.items(batch_id, 0, 10)
    assert (refused.error, platform.runtime.asked[f"batch-{batch_id}-1-0"]) == ("INTERNAL: a bug", runs.TRIES)
    await stop(replica)


@pytest.mark.parametrize("failure", [QuotaUsedUp("that was all", retry_after_s=3600.0), Away("nobody is there")])
async def test_a_batch_that_is_cancelled_waits_for_no_run_that_is_not_made(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch, failure: SignalboxError
) -> None:
    platform = await open_platform()
    platform.runtime.failing["a"] = failure
    monkeypatch.setattr(runs, "LONGEST_PAUSE_S", 0.02)
    replica = platform.replica()
    batch_id = await platform.started(["a", "b"], max_runs=1)
    await platform.until(batch_id, lambda batch: bool(batch.held_up_by))
    await platform.store.cancel(CALLER, batch_id)
    batch = await platform.over(batch_id)
    assert (batch.state, batch.counts) == (BatchState.CANCELLED, {ItemState.CANCELLED: 2})
    await stop(replica)


async def test_a_batch_that_is_run_again_counts_among_those_under_way(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform(at_once=1)
    replica = platform.replica()
    batch_id = await platform.started(["no"])
    await platform.over(batch_id)
    await stop(replica)
    other = await platform.store.create(CALLER, request_id="", name="", max_runs=0)
    with pytest.raises(TooManyBatches):
        await platform.store.retry(CALLER, batch_id)
    await platform.store.cancel(CALLER, other.batch_id)
    assert (await platform.store.retry(CALLER, batch_id))[1] == 1


async def test_runs_are_read_when_asked_for_and_large_ones_a_few_at_a_time(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = await open_platform()
    replica = platform.replica()
    batch_id = await platform.started(["a", "no", "c", "d"])
    await platform.over(batch_id)
    await stop(replica)
    told = await platform.store.ended(batch_id, 0, 10, with_runs=True)
    assert [each.number for each in told if each.run] == [each.number for each in told if each.number != 2]
    monkeypatch.setattr(store, "READ_BYTES", max(len(each.run) for each in told) + 1)
    assert len(await platform.store.ended(batch_id, 0, 10, with_runs=True)) < 4
    assert [each.number for each in await platform.store.items(batch_id, 0, 10)] == [1, 2, 3]
    assert [each.number for each in await platform.store.items(batch_id, 3, 10)] == [4]
    without = await platform.store.ended(batch_id, 0, 10, with_runs=False)
    assert [(each.number, each.run) for each in without] == [(each.number, b"") for each in told]


async def test_items_are_counted_anew_when_one_is_begun_or_ended(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    batch_id, other_id = [await platform.started(["a", "b"]) for _ in range(2)]
    claims = BatchClaims(platform.pool, lease_s=60.0, kept_s=60.0)
    claim = await claims.claim()
    assert claim is not None
    first = await platform.store.get(CALLER, claim.batch.batch_id)
    [begun] = await claims.begin(claim, 1)
    second = await platform.store.get(CALLER, first.batch_id)
    assert second.counts == {ItemState.PENDING: 1, ItemState.RUNNING: 1}
    await claims.end(claim, begun.number, ItemState.REFUSED, None, "no")
    third = await platform.store.get(CALLER, first.batch_id)
    assert third.counts == {ItemState.PENDING: 1, ItemState.REFUSED: 1}
    page = await platform.store.page(CALLER, subject="", before=None, limit=10)
    counted = {each.batch_id: each.counts for each in page}
    assert counted == {first.batch_id: third.counts, ({batch_id, other_id} - {first.batch_id}).pop(): first.counts}


async def test_what_was_counted_before_is_not_counted_again_and_a_batch_that_is_run_again_is(
    open_platform: Callable[..., Awaitable[Platform]],
) -> None:
    platform = await open_platform()
    batch_id = await platform.started(["a", "b", "c"])
    claims = BatchClaims(platform.pool, lease_s=60.0, kept_s=60.0)

    async def counts() -> dict[ItemState, int]:
        [listed] = await platform.store.page(CALLER, subject="", before=None, limit=10)
        batch = await platform.store.get(CALLER, batch_id)
        assert listed.counts == batch.counts
        return dict(batch.counts)

    for succeeding in (0, 1):
        claim = await claims.claim()
        assert claim is not None
        begun = await claims.begin(claim, 3)
        for pace, each in enumerate(begun, 2):
            state = ItemState.SUCCEEDED if pace - 2 < succeeding else ItemState.FAILED
            await claims.end(claim, each.number, state, None, "")
            before = await counts()
            await claims.renew(claim, pace=pace, held_up_by="")  # counts
            assert await counts() == before
        assert await claims.finish(claim)
        ended = {ItemState.SUCCEEDED: succeeding, ItemState.FAILED: 3 - succeeding}
        assert await counts() == {state: count for state, count in ended.items() if count}
        async with connected(platform.pool) as connection:
            # Read from what was counted, however many items there are.
            await connection.execute("UPDATE platform.batch_items SET state = 'REFUSED' WHERE state = 'FAILED'")
        assert ItemState.REFUSED not in await counts()
        await platform.store.retry(CALLER, batch_id)
        assert await counts() == {
            **({ItemState.SUCCEEDED: succeeding} if succeeding else {}),
            ItemState.PENDING: 3 - succeeding,
        }


async def test_what_takes_a_database_too_long_is_given_up(open_platform: Callable[..., Awaitable[Platform]]) -> None:
    platform = await open_platform()
    async with asyncio.timeout(10):
        with pytest.raises(BatchDatabaseAway):
            await slept(platform.pool, within_s=0.2)
    # The connection is good for others.
    async with connected(platform.pool) as connection:
        cursor = await connection.execute("SELECT 1 AS one")
        assert await cursor.fetchone() == {"one": 1}


async def slept(pool: Pool, within_s: float) -> None:
    """Has the database sleep for longer than a test."""
    async with connected(pool, within_s) as connection:
        await connection.execute("SELECT pg_sleep(60)")


async def test_as_many_runs_are_held_at_once_as_their_ends_allow(
    open_platform: Callable[..., Awaitable[Platform]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.batches.pace.FIRST_OVERDUE_S", 0.5)
    platform = await open_platform(share=8)
    batch_id = await platform.started(f"question {number}" for number in range(1000))
    replica = platform.replica()
    try:
        await platform.until(batch_id, lambda batch: batch.pace >= 4)
        platform.runtime.ends = False
        await platform.until(batch_id, lambda batch: batch.pace == 1)
    finally:
        await stop(replica)
