"""The offline model's skills find causes by reading, in any world: names, times and causes are not theirs to know.

They are told everything in other words than the prompts' own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

from examples.harbour.incidents.world import CASES, SERVICES, Case, Cause, ServiceWorld
from tests.fixtures.ended import Ended
from tests.fixtures.other_words import offline_model_in_other_words
from tests.fixtures.postgres import PostgresCluster
from tests.integration.incidents.conftest import OFFLINE, Bench, standing

# What the words for a cause have in common.
SAYS = {Cause.DEPLOY: "deployed", Cause.POOL: "pool", Cause.CREDENTIAL: "expired", Cause.DISK: "disk"}
_WORDS = (
    "amber basalt cedar dune ember fjord glade heath islet juniper kelp lichen moss nettle osier pebble".split()  # noqa: SIM905
)
SHIFT = timedelta(days=53, hours=7, minutes=10)


def renamed(**causes: tuple[Cause, str]) -> ServiceWorld:
    """The services by other names, at another time, with other causes at other services."""
    names = {service: f"{word}-svc" for service, word in zip(SERVICES, _WORDS, strict=True)}
    cases = tuple(
        replace(case, cause=causes[case.incident_id[-1:]][0], behind=causes[case.incident_id[-1:]][1]) for case in CASES
    )
    return ServiceWorld(names, ServiceWorld().present + SHIFT, cases)


# By the last digit of the incident: each cause at another place than in the harbour, another way behind what is seen.
SWAPPED = renamed(**{
    "1": (Cause.CREDENTIAL, "bank-link"),
    "2": (Cause.UNKNOWN, "tracking"),
    "3": (Cause.DISK, "accounts"),
    "4": (Cause.DEPLOY, "tide-tables"),
    "5": (Cause.POOL, "tide-tables"),
})  # fmt: skip


@asynccontextmanager
async def offline(world: ServiceWorld, cluster: PostgresCluster, falkordb: str) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        address, _ = await stack.enter_async_context(offline_model_in_other_words())
        url = f"http://{address}/v1"
        yield await stack.enter_async_context(standing(world, cluster, falkordb, models=OFFLINE, offline_url=url))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def harbour(postgres_cluster: PostgresCluster, falkordb: str) -> AsyncIterator[Bench]:
    async with offline(ServiceWorld(), postgres_cluster, falkordb) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def elsewhere(postgres_cluster: PostgresCluster, falkordb: str) -> AsyncIterator[Bench]:
    async with offline(SWAPPED, postgres_cluster, falkordb) as made:
        yield made


def check(bench: Bench, case: Case, ended: Ended) -> None:
    """Checks that the cause was found, and what it rests on; or that it was said that there is none to be found."""
    output = ended.output
    if case.cause is Cause.UNKNOWN:
        assert (ended.state, ended.run.stop_reason) == ("NEEDS_REVIEW", "no_cause_found"), output
        assert (output.root_cause, output.confidence) == ("", 0.0)
        assert bench.world.names[case.seen_at] in output.explanation
        return
    assert ended.state == "SUCCEEDED", (ended.rules, output)
    assert bench.world.names[case.behind] in output.root_cause
    assert SAYS[case.cause] in output.root_cause
    assert (output.confidence, output.offline_model_calls > 0) == (0.0, True)
    assert output.evidence
    assert [each.problem for each in output.evidence if not each.holds] == []
    kinds = {each.WhichOneof("source") for each in output.evidence}
    assert ("graph_path" in kinds) == (case.seen_at != case.behind)
    assert "query" in kinds
    assert ("code" in kinds) == (case.cause is not Cause.DISK)
    assert output.validated
    assert output.timeline
    assert output.recommendations


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cause.name)
async def test_the_harbours_incidents(harbour: Bench, case: Case) -> None:
    check(harbour, case, await harbour.investigate(harbour.incident(case)))


@pytest.mark.parametrize("case", SWAPPED.cases, ids=lambda case: case.cause.name)
async def test_other_names_other_times_other_causes(elsewhere: Bench, case: Case) -> None:
    check(elsewhere, case, await elsewhere.investigate(elsewhere.incident(case)))
