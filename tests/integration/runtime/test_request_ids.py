"""Request ids: a repeat finds the run, whatever replica it comes to, and nothing else does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.runtime.engine.database import PlatformPool
from services.runtime.engine.store import RunStore
from services.runtime.errors import RequestIdReused
from tests.integration.runtime.conftest import new_run


async def test_repeats_at_once_make_one_run(first: RunStore, second: RunStore) -> None:
    request = new_run(request_id="r1", thread_id="talk")
    made = await asyncio.gather(*(store.create(request, claim=True) for store in [first, second] * 5))
    assert len({run.run_id for run, _ in made}) == 1
    assert [is_new for _, is_new in made].count(True) == 1


@pytest.mark.parametrize("other", [{"until": 7}, {"thread_id": "talk"}, {"agent": "another"}])
@pytest.mark.parametrize("thread_id", [None, "chat"])
async def test_another_request_under_the_id_is_refused(
    first: RunStore, second: RunStore, thread_id: str | None, other: dict[str, Any]
) -> None:
    run, _ = await first.create(new_run(request_id="r1", thread_id=thread_id), claim=True)
    with pytest.raises(RequestIdReused) as refused:
        await second.create(new_run(request_id="r1", **{"thread_id": thread_id, **other}), claim=True)
    assert refused.value.metadata["run_id"] == run.run_id
    stranger, is_new = await second.create(new_run("28", request_id="r1", **other), claim=True)
    assert is_new
    assert stranger.run_id != run.run_id


async def test_what_may_differ_in_a_repeat(first: RunStore) -> None:
    run, _ = await first.create(new_run(request_id="r1", correlation_id="one"), claim=True)
    again, is_new = await first.create(new_run(request_id="r1", correlation_id="two"), claim=True)
    assert (again.run_id, is_new) == (run.run_id, False)


async def test_a_reused_id_leaves_no_thread_behind(first: RunStore, platform_pool: PlatformPool) -> None:
    """Else nobody could see or delete it, nor fork into its name."""
    await first.create(new_run(request_id="r1", thread_id="chat"), claim=True)
    with pytest.raises(RequestIdReused):
        await first.create(new_run(request_id="r1", thread_id="talk"), claim=True)
    async with platform_pool.connection() as connection:
        cursor = await connection.execute("SELECT thread_id FROM platform.threads")
        assert await cursor.fetchall() == [("chat",)]
