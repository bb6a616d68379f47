"""The store that graphs have for a caller, as that caller uses it: theirs alone, bounded, and what graphs see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import Caller
from services.runtime.engine.store_policy import StorePolicies, StorePolicy
from services.runtime.errors import ItemNotFound, StoreClosed, StoreRefused
from services.runtime.hosted import store as store_module
from services.runtime.hosted.caller_store import CallerStore
from tests.fixtures.hosted import CALLER, FOLDER, HostedReplica, hosted_replica, output_of

STRANGER = Caller("28", frozenset())
PLACE = ("people", "ana")


@pytest.fixture
async def replica(platform_dsn: str) -> AsyncIterator[HostedReplica]:
    """A replica that offers the graphs of the folder."""
    async with hosted_replica(platform_dsn, folder=FOLDER) as working:
        yield working


def store_of(replica: HostedReplica, **policy: object) -> CallerStore:
    return CallerStore(replica.pools.calls, StorePolicies({"default": StorePolicy(**policy)}))  # type: ignore[arg-type]


async def test_a_caller_and_their_graphs_have_one_store_and_nobody_else(replica: HostedReplica) -> None:
    store = store_of(replica)
    await store.put(CALLER, PLACE, "diet", {"eats": "fish"}, None)
    asked = [["get", [list(PLACE), "diet"], {}], ["put", [["noted"], "x", {"n": 1}], {}]]
    run = await replica.run("notes", {"script": [asked, [], [], []], "messages": []})
    assert "fish" in str(output_of(run)), output_of(run)
    assert (await store.get(CALLER, ("noted",), "x", leave_ttl=True)).value == {"n": 1}
    with pytest.raises(ItemNotFound):
        await store.get(STRANGER, PLACE, "diet", leave_ttl=True)
    assert not await store.search(STRANGER, (), {}, 10, 0, leave_ttl=True)
    assert not await store.namespaces(STRANGER, (), (), 0, 10, 0)
    await store.put(STRANGER, PLACE, "diet", None, None)
    assert (await store.get(CALLER, PLACE, "diet", leave_ttl=True)).value == {"eats": "fish"}


async def test_items_are_found_below_a_namespace_by_what_they_hold(replica: HostedReplica) -> None:
    store = store_of(replica)
    for number in range(3):
        await store.put(CALLER, PLACE, f"k{number}", {"n": number}, None)
    found = await store.search(CALLER, ("people",), {"n": {"$gte": 1}}, 10, 0, leave_ttl=True)
    assert [each.key for each in found] == ["k2", "k1"]
    assert await store.search(CALLER, ("peop",), {}, 10, 0, leave_ttl=True) == []
    assert await store.namespaces(CALLER, ("*",), ("ana",), 1, 10, 0) == [("people",)]
    for wrong in ({"n": {"$near": 1}}, {"n": {"$gt": "x"}}):
        with pytest.raises(InvalidRequest, match="filter"):
            await store.search(CALLER, PLACE, wrong, 10, 0, leave_ttl=True)


async def test_a_store_holds_so_much_and_is_open_as_far_as_the_operator_says(replica: HostedReplica) -> None:
    store = store_of(replica, most_items=1, most_value_bytes=100)
    await store.put(CALLER, PLACE, "a", {}, None)
    await store.put(CALLER, PLACE, "a", {"again": True}, None)
    with pytest.raises(StoreRefused, match="at most 1 items"):
        await store.put(CALLER, PLACE, "b", {}, None)
    with pytest.raises(StoreRefused, match="100 is the most"):
        await store.put(CALLER, PLACE, "a", {"text": "x" * 200}, None)
    reading = store_of(replica, callers="read")
    assert (await reading.get(CALLER, PLACE, "a", leave_ttl=True)).value == {"again": True}
    with pytest.raises(StoreClosed, match="may not write"):
        await reading.put(CALLER, PLACE, "a", None, None)
    with pytest.raises(StoreClosed, match="may not read"):
        await store_of(replica, callers="nothing").search(CALLER, (), {}, 10, 0, leave_ttl=True)


async def test_a_search_keeps_and_reads_no_more_than_it_tells(
    replica: HostedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(replica)
    await store.put(CALLER, PLACE, "k0", {"n": "x" * 60_000}, None)
    async with replica.pools.calls.connection() as connection:
        await connection.execute(
            "INSERT INTO platform.store SELECT scope, owner, thread_id, namespace, 'k' || n, value, subject, ttl_s,"
            " created_at, updated_at - n * interval '1 s', expires_at FROM platform.store, generate_series(1, 399) AS n"
        )
    parsed: list[bytes] = []
    as_before = store_module._value

    def counted(stored: bytes) -> dict[str, object]:
        parsed.append(stored)
        return as_before(stored)

    monkeypatch.setattr(store_module, "_value", counted)
    found = await store.search(CALLER, (), {}, 3, 350, leave_ttl=True)
    assert ([each.key for each in found], len(parsed)) == (["k350", "k351", "k352"], 3)
    parsed.clear()
    assert len(await store.search(CALLER, (), {}, 1000, 0, leave_ttl=True)) == len(parsed)
    # Told of the first 2 MiB alone.
    assert 2 << 20 < sum(map(len, parsed)) < 13 << 20
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    looking = asyncio.ensure_future(others())
    parsed.clear()
    [one] = await store.search(CALLER, (), {"n": {"$ne": 1}}, 1, 350, leave_ttl=True)
    assert one.key == "k350"
    looking.cancel()
    assert turns >= len(parsed) == 351
