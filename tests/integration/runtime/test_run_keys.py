"""Runs that a caller has one of for each name: whoever asks, at the same time, at whatever replica."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.kit.outcome import Outcome
from services.runtime.agents.run_key import RunKey
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import Ending, NewRun, RunState
from services.runtime.engine.store import RunStore
from services.runtime.errors import RequestIdReused, RunKeyReused, TooManyRunsAtOnce
from tests.integration.runtime.conftest import MakeStore, new_run


def named(name: str = "INC-1", digest: str = "d", *, again: bool = False, **changes: Any) -> NewRun:
    """A run by a name."""
    return new_run(key=RunKey(name, digest, again), **changes)


FAILED = Ending(RunState.FAILED, None, "node_failed", "it did not work")
BLOCKED = Ending(RunState.SUCCEEDED, outcome=Outcome.BLOCKED)


async def failed(store: RunStore, new: NewRun, ending: Ending = FAILED) -> str:
    """Creates a run and has it fail."""
    run, is_new = await store.create(new, claim=True)
    assert is_new
    await store.end(run, ending)
    return run.run_id


@pytest.mark.parametrize("thread_id", [None, "talk"])
async def test_who_asks_at_once_gets_one_run(first: RunStore, second: RunStore, thread_id: str | None) -> None:
    asked = [named(thread_id=thread_id, request_id=f"r{number}") for number in range(10)]
    stores = [first, second] * 5
    made = await asyncio.gather(*(store.create(new, claim=True) for store, new in zip(stores, asked, strict=True)))
    assert len({run.run_id for run, _ in made}) == 1
    assert [is_new for _, is_new in made].count(True) == 1


async def test_a_name_is_its_callers_and_its_agents(first: RunStore) -> None:
    made = [named(), named(subject="28"), named(agent="another"), named("INC-2"), new_run()]
    runs = [await first.create(new, claim=True) for new in made]
    assert len({run.run_id for run, is_new in runs if is_new}) == len(made)


async def test_another_input_under_the_name_is_refused(first: RunStore, second: RunStore) -> None:
    run, _ = await first.create(named(), claim=True)
    with pytest.raises(RunKeyReused) as refused:
        await second.create(named(digest="other"), claim=True)
    assert refused.value.metadata == {"run_id": run.run_id, "key": "INC-1"}
    with pytest.raises(RunKeyReused):
        # Nothing has failed.
        await second.create(named(digest="other", again=True), claim=True)


@pytest.mark.parametrize(
    "ending", [FAILED, BLOCKED, Ending(RunState.CANCELLED)], ids=["failed", "blocked", "cancelled"]
)
async def test_what_came_to_nothing_may_be_asked_again_and_is_then_one_run(
    first: RunStore, second: RunStore, ending: Ending
) -> None:
    before = await failed(first, named(), ending)
    found, is_new = await second.create(named(), claim=True)
    assert (found.run_id, found.state, is_new) == (before, ending.state, False)

    again = named(digest="told in more words", again=True)
    made = await asyncio.gather(*(store.create(again, claim=True) for store in [first, second] * 4))
    [run_id] = {run.run_id for run, _ in made}
    assert run_id != before
    assert [is_new for _, is_new in made].count(True) == 1
    # From now on it is the run of that name.
    found, _ = await first.create(named(digest="told in more words"), claim=True)
    assert found.run_id == run_id


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.NEEDS_REVIEW])
async def test_nothing_else_is_done_again(first: RunStore, state: RunState) -> None:
    run, _ = await first.create(named(), claim=True)
    await first.end(run, Ending(state))
    found, is_new = await first.create(named(again=True), claim=True)
    assert (found.run_id, is_new) == (run.run_id, False)


async def test_request_ids_go_before_names(first: RunStore) -> None:
    run, _ = await first.create(named(request_id="r1"), claim=True)
    found, is_new = await first.create(named("INC-2", request_id="r1"), claim=True)
    assert (found.run_id, is_new) == (run.run_id, False)
    with pytest.raises(RequestIdReused):
        await first.create(named(request_id="r1", until=7), claim=True)


async def test_a_run_that_breaks_a_quota_keeps_no_name(make_store: MakeStore) -> None:
    store = make_store("first", CallerQuota(runs_at_once=1))
    other, _ = await store.create(named("INC-1"), claim=True)
    with pytest.raises(TooManyRunsAtOnce):
        await store.create(named("INC-2"), claim=True)
    found, is_new = await store.create(named("INC-1"), claim=True)
    assert (found.run_id, is_new) == (other.run_id, False)
    await store.end(other, Ending(RunState.SUCCEEDED))
    _, is_new = await store.create(named("INC-2"), claim=True)
    assert is_new


async def test_a_repeat_is_known_when_no_more_work_is_taken(first: RunStore) -> None:
    await failed(first, named())
    assert await first.is_known(named())
    assert not await first.is_known(named("INC-2"))
    assert not await first.is_known(named(again=True))


async def test_a_name_goes_with_its_run(first: RunStore, platform_pool: PlatformPool) -> None:
    run_id = await failed(first, named())
    async with platform_pool.connection() as connection:
        await connection.execute("DELETE FROM platform.runs WHERE run_id = %s", [run_id])
        cursor = await connection.execute("SELECT count(*) FROM platform.run_keys")
        assert await cursor.fetchone() == (0,)
    _, is_new = await first.create(named(digest="other"), claim=True)
    assert is_new
