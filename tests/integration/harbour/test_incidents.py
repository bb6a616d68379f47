"""The harbour's incidents: what is reported of them, and that the evidence is there, beside what only looks like it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from examples.harbour import incidents
from examples.harbour import load as harbour
from examples.harbour.incidents.repository import files, make
from examples.harbour.incidents.rows import POOL_SIZE, deployments, metrics
from examples.harbour.incidents.world import CASES, Case, Cause, ServiceWorld, below, way
from tests.fixtures.postgres import TemplateDatabase

WORLD = ServiceWorld()
REPORTED = Path(incidents.__file__).parent / "reported"


def read(path: Path) -> dict[str, str]:
    """Reads a file whose values are all texts."""
    return dict(line.split(": ", 1) for line in path.read_text().splitlines())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.incident_id)
def test_what_is_reported_is_what_happened(case: Case) -> None:
    reported = read(REPORTED / f"{case.incident_id}.yaml")
    assert reported == {
        "incident_id": case.incident_id,
        "title": WORLD.title(case),
        "service": case.seen_at,
        "started_at": f"{WORLD.noticed(case):%Y-%m-%dT%H:%M:%SZ}",
        "severity": f"INCIDENT_SEVERITY_{case.severity}",
        "text": case.text,
    }


def test_the_causes_differ_and_one_is_behind_what_is_behind() -> None:
    assert {case.cause for case in CASES} == set(Cause)
    assert max(len(way(case.seen_at, case.behind)) for case in CASES) > 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.incident_id)
def test_what_only_looks_like_a_cause_is_there_too(case: Case) -> None:
    began, near = WORLD.began(case), {case.seen_at, *below(case.seen_at)}
    around = [each for each in deployments(WORLD) if abs(each.deployed_at - began).total_seconds() <= 3600]
    assert any(each.service not in near and each.deployed_at < began for each in around)
    assert any(each.service in near and each.deployed_at > began for each in around)
    causes = [each for each in around if each.service in near and each.deployed_at <= began]
    assert [each.service for each in causes] == ([case.behind] if case.cause is Cause.DEPLOY else [])


def test_a_pool_is_used_up_only_where_that_is_the_cause() -> None:
    full = {(service, time) for service, metric, time, value in metrics(WORLD)
            if metric == "db_connections" and value >= POOL_SIZE}  # fmt: skip
    [case] = [case for case in CASES if case.cause is Cause.POOL]
    assert {service for service, _ in full} == {case.behind}
    assert min(time for _, time in full) == WORLD.began(case)


def test_the_repository_is_always_the_same(tmp_path: Path) -> None:
    assert make(tmp_path / "one").commit == make(tmp_path / "two").commit
    assert b"Note to assistants" in files(WORLD)["services/ledger/config.yaml"]


async def test_a_world_from_before_gets_what_it_lacks(template_database: TemplateDatabase) -> None:
    async def prepare(dsn: str) -> None:
        assert await harbour.load(dsn)

    dsn = await template_database("harbour", prepare)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("DROP TABLE deployments, service_metrics")
    assert await harbour.load(dsn)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute("SELECT count(*), count(DISTINCT service) FROM service_metrics")
        assert await cursor.fetchone() == (80_752, 16)
    assert not await harbour.load(dsn)
