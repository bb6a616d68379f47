"""Threads: one active run at a time whoever claims it, read back, forked and deleted, by their owner alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.records import ActiveRunPolicy, Ending, RunRecord, RunState
from services.runtime.engine.retention import Pruner
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.rights import shown_to
from services.runtime.engine.serde import make_serde
from services.runtime.engine.threads import Fork, ThreadStore
from services.runtime.errors import (
    AgentGone,
    CheckpointNotFound,
    DatabaseAway,
    ForkRefused,
    RolesLost,
    RunNotEnded,
    RunNotFound,
    ThreadBusy,
    ThreadExists,
    ThreadNotFound,
    ThreadsEmpty,
)
from tests.fixtures.replica import Counting, Replica, answer_of
from tests.integration.runtime.conftest import AGENT, AGENTS, VERSION, OwnerStore, StartReplica, ended, new_run

Pool = AsyncConnectionPool[Any]
OWNER = Caller("27", frozenset())
STRANGERS = (Caller("28", frozenset()), Caller("28", frozenset({"operator", "admin"})))
SHORT = RetentionPolicy(checkpoint_days=1, event_days=1, run_days=1)
QUEUE, CANCEL_ACTIVE = ActiveRunPolicy.QUEUE, ActiveRunPolicy.CANCEL_ACTIVE
ROLL_BACK_ACTIVE = ActiveRunPolicy.ROLL_BACK_ACTIVE


@pytest.fixture
async def replica(start_replica: StartReplica) -> Replica:
    return await start_replica()


@pytest.fixture
def threads(platform_pool: Pool, first: OwnerStore) -> ThreadStore:
    return ThreadStore(platform_pool, make_serde(), first, {AGENT: Counting().agent(AGENT)})


async def finished(replica: Replica, thread_id: str = "talk", **changes: Any) -> RunRecord:
    """A run of a thread that has counted to the end."""
    run, _ = await replica.engine.create(new_run(thread_id=thread_id, **changes))
    return await asyncio.wait_for(ended(replica, run), 60)


async def state_of(store: OwnerStore, run: RunRecord) -> RunState:
    return (await store.get(run.run_id, run.caller)).state


async def test_what_is_kept_with_a_thread_finds_it_and_goes_when_no_run_comes(
    platform_pool: PlatformPool, threads: ThreadStore, first: OwnerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await threads.update(OWNER, "named", {"room": 4, "team": {"name": "ana"}}, only_new=True)
    kept = await threads.update(OWNER, "named", {"room": 5}, only_new=False)
    assert (kept.metadata, kept.run_count, kept.state) == ({"room": 5, "team": {"name": "ana"}}, 0, None)
    await first.create(new_run(thread_id="talk", labels={"team": "payments"}), claim=True)
    await threads.update(OWNER, "talk", {"room": 6}, only_new=False)

    async def found(caller: Caller = OWNER, **metadata: Any) -> list[str]:
        return [each.thread_id for each in await threads.select(caller, limit=10, metadata=metadata)]

    assert (await found(), await found(room=5), await found(team={"name": "ana"})) == (
        ["talk", "named"], ["named"], ["named"],
    )  # fmt: skip
    assert await found(room=5, team={"name": "ana"}) == ["named"]
    assert (await found(team="payments", room=6), await found(room=4), await found(STRANGERS[0])) == (["talk"], [], [])
    with pytest.raises(ThreadExists):
        await threads.update(OWNER, "named", {}, only_new=True)
    for wrong in ({"a": "\0"}, {"a": "x" * 40_000}):
        with pytest.raises(InvalidRequest, match="metadata"):
            await threads.update(OWNER, "named", wrong, only_new=False)
    monkeypatch.setattr("services.runtime.engine.threads.MOST_EMPTY", 1)
    with pytest.raises(ThreadsEmpty):
        await threads.update(OWNER, "another", {"room": 1}, only_new=True)
    history = CheckpointHistory(platform_pool, make_serde())
    await Pruner(platform_pool, history, {"default": SHORT}).prune(wait=True)
    assert await found() == ["talk", "named"]
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.threads SET created_at = created_at - interval '2 days'")
    await Pruner(platform_pool, history, {"default": SHORT}).prune(wait=True)
    assert await found() == ["talk"]


async def test_a_search_that_the_database_gives_up_is_not_asked_for_again(
    threads: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"
    monkeypatch.setattr("services.runtime.engine.threads.query", lambda _: too_long)
    with pytest.raises(InvalidRequest, match="longer than the database allows"):
        await threads.select(OWNER, limit=10, metadata={"room": 1})
    # Without metadata it is no fault of what was asked.
    with pytest.raises(DatabaseAway):
        await threads.select(OWNER, limit=10)


async def test_a_busy_thread_refuses_on_any_replica(first: OwnerStore, second: OwnerStore) -> None:
    active, _ = await first.create(new_run(thread_id="talk"), claim=True)
    for store in (first, second):
        with pytest.raises(ThreadBusy) as refused:
            await store.create(new_run(thread_id="talk"), claim=True)
        assert refused.value.metadata == {"active_run_id": active.run_id}
    await first.end(active, Ending(RunState.SUCCEEDED))
    _, is_new = await second.create(new_run(thread_id="talk"), claim=True)
    assert is_new


async def test_the_running_one_is_named_also_when_others_wait(first: OwnerStore, second: OwnerStore) -> None:
    active, _ = await first.create(new_run(thread_id="talk"), claim=True)
    await second.create(new_run(thread_id="talk", active_run_policy=QUEUE), claim=True)
    with pytest.raises(ThreadBusy) as refused:
        await second.create(new_run(thread_id="talk"), claim=True)
    assert refused.value.metadata == {"active_run_id": active.run_id}


async def test_of_many_at_the_same_moment_one_gets_the_thread(first: OwnerStore, second: OwnerStore) -> None:
    attempts = ((first, second)[number % 2].create(new_run(thread_id="talk"), claim=True) for number in range(12))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(result, tuple) for result in results) == 1
    assert sum(isinstance(result, ThreadBusy) for result in results) == 11


async def test_queued_runs_go_one_after_another_in_order_also_after_a_takeover(
    first: OwnerStore, second: OwnerStore
) -> None:
    created = [
        (await store.create(new_run(thread_id="talk", active_run_policy=QUEUE), claim=True))[0]
        for store in (first, second, first)
    ]
    assert [run.state for run in created] == [RunState.RUNNING, RunState.PENDING, RunState.PENDING]
    assert await second.upkeep.claim_pending(10, AGENTS) == []

    # The owner of the first one is gone: it comes back before those that wait behind it.
    assert [run.run_id for run in (await second.upkeep.take_over()).freed] == [created[0].run_id]
    for expected in created:
        [claimed] = await second.upkeep.claim_pending(10, AGENTS)
        assert claimed.run_id == expected.run_id
        assert await first.upkeep.claim_pending(10, AGENTS) == []
        await second.end(claimed, Ending(RunState.SUCCEEDED))


async def test_replicas_that_claim_at_once_never_run_two_of_a_thread(first: OwnerStore, second: OwnerStore) -> None:
    for _ in range(6):
        await first.create(new_run(thread_id="talk", active_run_policy=QUEUE), claim=False)
    done = 0
    while done < 6:
        claims = await asyncio.gather(
            *(store.upkeep.claim_pending(10, AGENTS) for store in (first, second) for _ in range(3))
        )
        claimed = [run for runs in claims for run in runs]
        assert len(claimed) == 1
        await first.end(claimed[0], Ending(RunState.SUCCEEDED))
        done += 1


async def test_cancelling_the_active_run_reaches_the_replica_that_executes_it(
    start_replica: StartReplica,
) -> None:
    one, other = await start_replica(), await start_replica()
    gate = one.counting.hold(2)
    active, _ = await one.engine.create(new_run(thread_id="talk"))
    await asyncio.wait_for(one.counting.reached.wait(), 60)
    queued, _ = await other.engine.create(new_run(thread_id="talk", active_run_policy=QUEUE))
    latest, _ = await other.engine.create(new_run(thread_id="talk", active_run_policy=CANCEL_ACTIVE))
    gate.set()
    after = [await asyncio.wait_for(ended(other, run), 60) for run in (active, queued, latest)]
    assert [run.state for run in after] == [RunState.CANCELLED, RunState.CANCELLED, RunState.SUCCEEDED]


@pytest.mark.parametrize("policy", [CANCEL_ACTIVE, ROLL_BACK_ACTIVE])
async def test_a_cancelled_run_whose_owner_is_gone_does_nothing_more(
    start_replica: StartReplica, policy: ActiveRunPolicy
) -> None:
    gone = await start_replica()
    gone.counting.hold(2)
    active, _ = await gone.engine.create(new_run(thread_id="talk", until=30))
    await asyncio.wait_for(gone.counting.reached.wait(), 60)
    latest, _ = await gone.store.create(new_run(thread_id="talk", active_run_policy=policy), claim=False)

    heir = await start_replica(Counting())
    await gone.engine.drain()
    after = [await asyncio.wait_for(ended(heir, run), 60) for run in (active, latest)]
    assert [run.state for run in after] == [RunState.CANCELLED, RunState.SUCCEEDED]
    assert [number for run_id, number in heir.counting.counted if run_id == active.run_id] == []
    assert after[0].rolled_back_by == (latest.run_id if policy is ROLL_BACK_ACTIVE else None)


async def test_a_run_that_ends_while_it_is_rolled_back_is_no_part_of_its_thread(
    first: OwnerStore, second: OwnerStore, threads: ThreadStore
) -> None:
    async def begun(**changes: Any) -> RunRecord:
        run, _ = await first.create(new_run(thread_id="talk", **changes), claim=True)
        return run

    done = Ending(RunState.SUCCEEDED, output=b"answer")
    before = await begun()
    await first.end(before, done)
    active = await begun()
    rolling = new_run(thread_id="talk", request_id="r", active_run_policy=ROLL_BACK_ACTIVE)
    passing, _ = await second.create(rolling, claim=True)
    latest, _ = await second.create(new_run(thread_id="talk", active_run_policy=ROLL_BACK_ACTIVE), claim=True)
    # It comes to its end before its replica has heard of either.
    ended_all_the_same = await first.end(active, done)
    assert (ended_all_the_same.state, ended_all_the_same.rolled_back_by) == (RunState.SUCCEEDED, passing.run_id)
    assert len(await first.thread_turns(latest, 10)) == 1
    [claimed] = await second.upkeep.claim_pending(10, AGENTS)
    # A repeat rolls nothing back, nor does a run that comes after the end, or is refused.
    assert (await second.create(rolling, claim=True))[0].run_id == passing.run_id
    with pytest.raises(ThreadBusy):
        await begun()
    await second.end(claimed, done)
    last = await begun(active_run_policy=ROLL_BACK_ACTIVE)
    await first.end(last, done)
    assert {run.run_id: run.rolled_back_by for run in await threads.runs(OWNER, "talk")} == {
        last.run_id: None, latest.run_id: None, passing.run_id: latest.run_id, active.run_id: passing.run_id,
        before.run_id: None,
    }  # fmt: skip
    made, _ = await threads.fork(OWNER, Fork("talk", last.run_id))
    assert made.run_count == 3
    with pytest.raises(ForkRefused):
        await threads.fork(OWNER, Fork("talk", active.run_id))


async def test_a_run_sees_the_answers_of_its_thread(replica: Replica) -> None:
    await finished(replica, until=2)
    assert answer_of((await finished(replica, until=1)).output) == "1 2 1"


async def test_threads_are_listed_newest_first_and_paged(replica: Replica, threads: ThreadStore) -> None:
    for name in ("a", "b", "c"):
        await finished(replica, name, until=1)
    run = await finished(replica, "a", until=1)
    listed = await threads.select(OWNER, limit=10)
    assert [(thread.thread_id, thread.run_count) for thread in listed] == [("c", 1), ("b", 1), ("a", 2)]
    assert (listed[2].latest_run_at, listed[2].active_run_id) == (run.created_at, None)
    page = await threads.select(OWNER, limit=1, before=(listed[0].created_at, "c"))
    assert [thread.thread_id for thread in page] == ["b"]
    assert next(each.run_id for each in await threads.runs(OWNER, "a")) == run.run_id


async def test_nobody_but_its_owner_sees_a_thread(replica: Replica, threads: ThreadStore) -> None:
    run = await finished(replica)
    for stranger in STRANGERS:
        assert await threads.select(stranger, limit=10) == []
        assert await threads.runs(stranger, "talk") == []
        with pytest.raises(ThreadNotFound):
            await threads.get(stranger, "talk")
        with pytest.raises(RunNotFound):
            await threads.state(stranger, "talk", run.run_id, None)
        with pytest.raises(RunNotFound):
            await threads.fork(stranger, Fork("talk", run.run_id))
        with pytest.raises(ThreadNotFound):
            await threads.delete(stranger, "talk")
    assert (await threads.get(OWNER, "talk")).run_count == 1


async def test_a_run_is_read_back_at_any_checkpoint(replica: Replica, threads: ThreadStore) -> None:
    run = await finished(replica, until=3)
    latest, checkpoints = await threads.state(OWNER, "talk", run.run_id, None)
    assert [each.step for each in checkpoints] == [-1, 0, 1, 2, 3, 4]
    assert latest.checkpoint == checkpoints[-1]
    assert (latest.values["counts"], latest.values["status"]) == ([1, 2, 3], "completed")

    seen = [(await threads.state(OWNER, "talk", run.run_id, each.checkpoint_id))[0] for each in checkpoints]
    following = ["__start__", "count", "count", "count", "report"]
    assert [each.next_nodes for each in checkpoints] == [*((node,) for node in following), ()]
    assert [each.values.get("counts", []) for each in seen[1:4]] == [[], [1], [1, 2]]
    assert seen[0].values["until"] == 3
    with pytest.raises(CheckpointNotFound):
        await threads.state(OWNER, "talk", run.run_id, "1ef4f797-8335-6428-8001-8a1503f9b875")
    with pytest.raises(RunNotFound):
        await threads.state(OWNER, "other", run.run_id, None)


async def test_a_fork_starts_with_the_history_up_to_a_run_and_goes_its_own_way(
    replica: Replica, threads: ThreadStore
) -> None:
    first_run, second_run = await finished(replica, until=1), await finished(replica, until=2)
    await finished(replica, until=3)
    fork, run = await threads.fork(OWNER, Fork("talk", second_run.run_id, new_thread_id="fork"))
    assert (fork.thread_id, fork.run_count, fork.active_run_id, run) == ("fork", 2, None, None)

    copies = await threads.runs(OWNER, "fork")
    assert {copy.run_id for copy in copies}.isdisjoint({first_run.run_id, second_run.run_id})
    whole = [await replica.store.get(copy.run_id, OWNER) for copy in reversed(copies)]
    assert [copy.output for copy in whole] == [first_run.output, second_run.output]
    state, _ = await threads.state(OWNER, "fork", copies[0].run_id, None)
    assert state.values["counts"] == [1, 2]
    events = [event async for event in replica.engine.watch(whole[0], 0)]
    assert [event.kind for event in events] == ["run_ended"]

    # It goes on from there, and neither thread hears of the other any more.
    assert answer_of((await finished(replica, "fork", until=1)).output).startswith(answer_of(first_run.output))
    assert ((await threads.get(OWNER, "talk")).run_count, (await threads.get(OWNER, "fork")).run_count) == (3, 3)
    await threads.delete(OWNER, "talk")
    assert (await threads.get(OWNER, "fork")).run_count == 3


async def test_a_run_goes_on_from_an_earlier_checkpoint_in_a_fork(replica: Replica, threads: ThreadStore) -> None:
    await finished(replica, until=1)
    source = await finished(replica, until=4)
    _, checkpoints = await threads.state(OWNER, "talk", source.run_id, None)
    after_two = checkpoints[3].checkpoint_id
    fork, run = await threads.fork(OWNER, Fork("talk", source.run_id, after_two))
    assert run is not None
    assert (fork.run_count, fork.active_run_id, run.graph_version) == (2, run.run_id, "")
    assert run.spend["model_calls"] == 2

    after = await asyncio.wait_for(ended(replica, run), 60)
    assert (after.state, after.output) == (RunState.SUCCEEDED, source.output)
    assert after.graph_version == VERSION
    assert [number for run_id, number in replica.counting.counted if run_id == run.run_id] == [3, 4]
    assert after.spend["model_calls"] == source.spend["model_calls"]
    state, own = await threads.state(OWNER, fork.thread_id, run.run_id, None)
    assert (state.values["run_id"], state.values["counts"]) == (run.run_id, [1, 2, 3, 4])
    assert own[0].checkpoint_id == after_two


async def test_a_run_goes_on_from_its_input_in_a_fork(replica: Replica, threads: ThreadStore) -> None:
    source = await finished(replica, until=2)
    _, checkpoints = await threads.state(OWNER, "talk", source.run_id, None)
    _, run = await threads.fork(OWNER, Fork("talk", source.run_id, checkpoints[0].checkpoint_id))
    assert run is not None
    assert answer_of((await asyncio.wait_for(ended(replica, run), 60)).output) == "1 2"


async def test_what_can_not_be_forked_is_refused_and_leaves_nothing(
    replica: Replica, threads: ThreadStore, platform_pool: Pool, first: OwnerStore
) -> None:
    run = await finished(replica, until=1)
    with pytest.raises(ThreadExists):
        await threads.fork(OWNER, Fork("talk", run.run_id, new_thread_id="talk"))
    with pytest.raises(CheckpointNotFound):
        await threads.fork(OWNER, Fork("talk", run.run_id, "1ef4f797-8335-6428-8001-8a1503f9b875", "fork"))
    with pytest.raises(RunNotFound):
        await threads.fork(OWNER, Fork("other", run.run_id, new_thread_id="fork"))
    _, checkpoints = await threads.state(OWNER, "talk", run.run_id, None)
    without_agents = ThreadStore(platform_pool, make_serde(), first, {})
    with pytest.raises(AgentGone):
        await without_agents.fork(OWNER, Fork("talk", run.run_id, checkpoints[1].checkpoint_id, "fork"))
    gate = replica.counting.hold(2)
    live, _ = await replica.engine.create(new_run(thread_id="talk", until=2))
    await asyncio.wait_for(replica.counting.reached.wait(), 60)
    with pytest.raises(RunNotEnded):
        await threads.fork(OWNER, Fork("talk", live.run_id, new_thread_id="fork"))
    gate.set()
    assert [thread.thread_id for thread in await threads.select(OWNER, limit=10)] == ["talk"]


async def test_a_deleted_thread_is_gone_from_everywhere_but_the_ledger_which_is_blanked(
    replica: Replica, threads: ThreadStore, platform_pool: Pool
) -> None:
    run, kept = await finished(replica, until=2), await finished(replica, "kept", until=2)
    assert await threads.delete(OWNER, "talk") == (1, 2)
    queries = {
        "threads": "SELECT thread_id FROM platform.threads",
        "runs": "SELECT thread_id FROM platform.runs",
        "run_events": "SELECT DISTINCT run_id::text FROM platform.run_events",
        "checkpoints": "SELECT DISTINCT thread_id FROM platform.checkpoints",
        "checkpoint_writes": "SELECT DISTINCT thread_id FROM platform.checkpoint_writes",
    }
    async with platform_pool.connection() as connection:
        for table, query in queries.items():
            cursor = await connection.execute(query)
            assert await cursor.fetchall() == [("kept" if table in ("threads", "runs") else kept.run_id,)], table
        cursor = await connection.execute(
            "SELECT facts, grounds, rejected_rules, calls, rule"
            " FROM platform.decisions WHERE run_id = %s ORDER BY sequence",
            [run.run_id],
        )
        assert await cursor.fetchall() == [({}, {}, [], [], "go_on"), ({}, {}, [], [], "done")]
        cursor = await connection.execute("SELECT count(*) FROM platform.decisions WHERE facts <> '{}'")
        assert await cursor.fetchone() == (2,)
    with pytest.raises(ThreadNotFound):
        await threads.delete(OWNER, "talk")


async def test_a_thread_with_an_active_run_is_not_deleted(
    threads: ThreadStore, first: OwnerStore, second: OwnerStore
) -> None:
    run, _ = await second.create(new_run(thread_id="talk"), claim=True)
    with pytest.raises(ThreadBusy) as refused:
        await threads.delete(OWNER, "talk")
    assert refused.value.metadata == {"active_run_id": run.run_id}
    assert await state_of(first, run) is RunState.RUNNING


async def test_a_thread_that_there_is_not_is_not_left_behind_by_its_deletion(
    threads: ThreadStore, platform_pool: Pool
) -> None:
    with pytest.raises(ThreadNotFound):
        await threads.delete(OWNER, "nothing")
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM platform.threads")
        assert await cursor.fetchone() == (0,)


async def test_what_a_lost_role_brought_is_no_part_of_the_thread_any_more(
    replica: Replica, threads: ThreadStore
) -> None:
    admin, clerk = Caller("27", frozenset({"admin", "clerk"})), Caller("27", frozenset({"clerk"}))
    begun = await finished(replica, caller=admin, until=2)
    widened = await finished(replica, caller=admin, until=3)
    assert answer_of(widened.output) == "1 2 1 2 3"  # an admin goes on with what an admin was told

    plain = await finished(replica, caller=clerk, until=1)
    assert answer_of(plain.output) == "1"
    again = await finished(replica, caller=clerk, until=1)
    assert answer_of(again.output) == "1 1"
    regained = await finished(replica, caller=admin, until=1)
    assert answer_of(regained.output).startswith("1 2 1 2 1 2 3")

    for fork in (Fork("talk", begun.run_id), Fork("talk", widened.run_id, checkpoint_id="any")):
        with pytest.raises(RolesLost):
            await threads.fork(clerk, fork)
    with pytest.raises(RolesLost):
        await threads.state(clerk, "talk", begun.run_id, None)
    forked, _ = await threads.fork(clerk, Fork("talk", plain.run_id, new_thread_id="mine"))
    assert forked.run_count == 3
    later = await finished(replica, "mine", caller=clerk, until=1)
    assert answer_of(later.output) == "1 1"  # the copies of an admin's runs are an admin's


async def test_a_run_is_shown_without_what_a_lost_role_brought(replica: Replica) -> None:
    admin = Caller("27", frozenset({"admin"}))
    run = await finished(replica, caller=admin)
    assert shown_to(admin, run).output == run.output is not None
    assert shown_to(Caller("27", frozenset({"admin", "more"})), run).output == run.output
    assert shown_to(OWNER, run).output is None
    assert shown_to(OWNER, run).state is RunState.SUCCEEDED
    assert shown_to(Caller("1", frozenset({"operator"})), run).output == run.output
