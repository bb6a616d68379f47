"""A run is decided by one policy, from its first claim to its end, whoever goes on with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from services.runtime.agents.policies import FILE, Limits
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.routing.digest import policy_version
from tests.fixtures.replica import BUDGET, Counting, CountingPolicy, Replica, answer_of
from tests.integration.runtime.conftest import MakeStore, StartReplica, ended, new_run

TIMEOUT_S = 60.0
# As the release before this one claims: through the view, and without a claim's id.
CLAIM_OF_LAST_RELEASE = """
    UPDATE public.runs SET state = 'RUNNING', owner = 'last release', epoch = epoch + 1,
        lease_expires_at = now() + interval '15 s', started_at = coalesce(started_at, now())
    WHERE run_id = %s AND state = 'PENDING'
"""


def set_to(max_counts: int) -> Limits:
    """Limits as an operator's file sets them."""
    return Limits(CountingPolicy(max_counts), BUDGET, {"max_counts": FILE})


@dataclass
class Ledger:
    """What the database says of a run's policy."""

    versions: set[str]
    pinned: str | None


async def ledger(pool: PlatformPool, run: RunRecord) -> Ledger:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT DISTINCT policy_version FROM platform.decisions WHERE run_id = %s", [run.run_id]
        )
        versions = {version for (version,) in await cursor.fetchall()}
        cursor = await connection.execute(
            "SELECT policy_version FROM platform.runs JOIN platform.policies USING (policy_id) WHERE run_id = %s",
            [run.run_id],
        )
        row = await cursor.fetchone()
    return Ledger(versions, row[0] if row else None)


async def left_behind(replica: Replica, *, until: int = 10) -> RunRecord:
    """A run that its replica has let go of, before it counted to three."""
    gate = replica.counting.hold(3)
    run, _ = await replica.engine.create(new_run(until=until))
    await asyncio.wait_for(replica.counting.reached.wait(), TIMEOUT_S)
    await replica.engine.drain()
    gate.set()
    left = await replica.store.get(run.run_id, run.caller)
    assert (left.state, left.epoch) == (RunState.PENDING, 1)
    return left


async def finished(replica: Replica, run: RunRecord) -> RunRecord:
    async with asyncio.timeout(TIMEOUT_S):
        return await ended(replica, run)


async def test_it_goes_on_under_its_own_limits(start_replica: StartReplica, platform_pool: PlatformPool) -> None:
    run = await left_behind(await start_replica(limits=set_to(5)))
    second = await start_replica(limits=set_to(2))
    done = await finished(second, run)
    assert (done.epoch, done.stop_reason, answer_of(done.output)) == (2, "max_counts", "1 2 3 4 5")
    found = await ledger(platform_pool, run)
    assert found.versions == {found.pinned} == {policy_version(CountingPolicy(5))}
    own, _ = await second.engine.create(new_run(until=10))
    assert answer_of((await finished(second, own)).output) == "1 2"


async def test_its_prompts_are_pinned_with_its_limits(start_replica: StartReplica) -> None:
    first = replace(set_to(5), prompts="first")
    run = await left_behind(await start_replica(limits=first))
    second = await start_replica(limits=replace(first, prompts="second"))
    pin = await second.pins.pin_of(await finished(second, run))
    assert pin
    assert pin.prompts == "first"
    assert pin.limits == first.pin.limits


def test_only_an_operators_prompts_hide_runs_from_releases_without_policies() -> None:
    built_in = replace(set_to(5), origins={}, prompts="first")
    assert built_in.pin.origins == {}
    assert replace(built_in, prompts_given=True).pin.origins != {}


async def test_it_is_pinned_by_who_claims_it_first(
    start_replica: StartReplica, make_store: MakeStore, platform_pool: PlatformPool
) -> None:
    run, _ = await make_store("first").create(new_run(until=10), claim=False)
    assert (await ledger(platform_pool, run)).pinned is None
    done = await finished(await start_replica(limits=set_to(2)), run)
    assert answer_of(done.output) == "1 2"
    assert (await ledger(platform_pool, run)).pinned == policy_version(CountingPolicy(2))


async def test_what_the_last_release_began_goes_on_under_what_is_built_in(
    start_replica: StartReplica, platform_pool: PlatformPool
) -> None:
    run = await left_behind(await start_replica(), until=4)
    async with platform_pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET policy_id = NULL WHERE run_id = %s", [run.run_id])
    done = await finished(await start_replica(limits=set_to(2)), run)
    assert (done.stop_reason, answer_of(done.output)) == ("", "1 2 3 4")
    assert (await ledger(platform_pool, run)).versions == {policy_version(CountingPolicy())}


@pytest.mark.parametrize(("limits", "claimed"), [(set_to(5), 0), (None, 1)], ids=["set", "built in"])
async def test_the_last_release_leaves_alone_what_it_would_decide_otherwise(
    start_replica: StartReplica, platform_pool: PlatformPool, limits: Limits | None, claimed: int
) -> None:
    run = await left_behind(await start_replica(limits=limits))
    async with platform_pool.connection() as connection:
        cursor = await connection.execute(CLAIM_OF_LAST_RELEASE, [run.run_id])
        assert cursor.rowcount == claimed


async def test_a_fork_is_a_run_of_its_own(start_replica: StartReplica, make_store: MakeStore) -> None:
    run, _ = await make_store("first").create(new_run(until=10), claim=False)
    pool = make_store("first")._pools.calls
    async with pool.connection() as connection:
        # As `continue_run` makes them: claimed once, in a way, and never begun.
        await connection.execute("UPDATE platform.runs SET epoch = 1 WHERE run_id = %s", [run.run_id])
    done = await finished(await start_replica(limits=set_to(2)), run)
    assert answer_of(done.output) == "1 2"


async def pin_to(pool: PlatformPool, run: RunRecord, limits: dict[str, Any]) -> None:
    """Pins a run to limits that another release has written."""
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO platform.policies VALUES ('other', 'version', %s, %s)", [Jsonb(limits), Jsonb({})]
        )
        await connection.execute("UPDATE platform.runs SET policy_id = 'other' WHERE run_id = %s", [run.run_id])


@pytest.mark.parametrize(
    ("limits", "answer"),
    [({"max_counts": 4, "max_colours": 7}, "1 2 3 4"), ({}, "1 2 3 4 5 6 7 8")],
    ids=["newer", "older"],
)
async def test_limits_of_another_release(
    start_replica: StartReplica, platform_pool: PlatformPool, limits: dict[str, Any], answer: str
) -> None:
    """One that this release does not know is left out, and one that the other did not know is as it is built in."""
    run = await left_behind(await start_replica(limits=set_to(5)), until=8)
    await pin_to(platform_pool, run, limits)
    done = await finished(await start_replica(Counting(), limits=set_to(2)), run)
    assert answer_of(done.output) == answer


async def test_a_limit_that_can_not_be_used_is_said(start_replica: StartReplica, platform_pool: PlatformPool) -> None:
    run = await left_behind(await start_replica())
    await pin_to(platform_pool, run, {"max_counts": "many"})
    done = await finished(await start_replica(), run)
    assert (done.state, done.stop_reason) == (RunState.FAILED, "policy_unreadable")
    assert "CountingPolicy.max_counts is pinned to 'many'" in done.error
