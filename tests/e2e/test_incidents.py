"""The harbour's incidents through the whole platform, with the offline model, as a caller sees them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf import json_format
from signalbox.v1 import runs_pb2

from examples.harbour.incidents import repository as services_repository
from examples.harbour.incidents.world import CASES, Case, Cause
from examples.harbour.repository import ServiceRepository
from services.cli.input_file import read_input
from services.local.database import WORLD_GRAPH_POLICY, WORLD_POLICY
from services.runtime.agents.registry import definitions
from tests.e2e.signals import INCIDENT_EDGES
from tests.fixtures.client import Asked, RunClient
from tests.fixtures.otlp import TraceCollector
from tests.fixtures.stack import Deployed, Platform, World, platform

REPORTED = WORLD_POLICY.parent / "incidents" / "reported"
AGENT = "incident_investigation"
# What a correlation id may hold, and what parses it again on its way: baggage, JSON, logs.
ODD = r"""a"b\c{0}%s%2C,;=<script>$(x)`'&~!"""
ROUTERS = {router.name for router in definitions()[AGENT].outline.routers}


@dataclass(frozen=True)
class Incidents:
    """A platform, and a repository with the configuration of the services."""

    running: Deployed
    source: ServiceRepository

    def client(self, subject: str = "27") -> RunClient:
        """A caller."""
        return self.running.caller(subject)

    def request(self, case: Case, **changes: Any) -> runs_pb2.CreateRunRequest:
        """The request for an incident as it was reported."""
        given = read_input(AGENT, REPORTED / f"{case.incident_id}.yaml")
        given.incident_investigation.source.repository = self.source.path
        given.incident_investigation.source.commit = self.source.commit
        return runs_pb2.CreateRunRequest(input=given, **changes)

    async def ended(self, case: Case, subject: str = "27", **changes: Any) -> Asked:
        """An investigation, to its end."""
        client = self.client(subject)
        return await client.finish([event async for event in client.execute(self.request(case, **changes))])


@dataclass(frozen=True)
class Investigated(Incidents):
    """Incidents on a platform of this machine, with its logs and traces."""

    running: Platform
    collector: TraceCollector

    def routed(self, correlation_id: str) -> list[dict[str, Any]]:
        """The log lines of the decisions of a run."""
        lines = (json.loads(line) for line in self.running.stack.logs("runtime").splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == "routed" and line.get("correlation_id") == correlation_id]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def investigated(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Investigated]:
    folder: Path = tmp_path_factory.mktemp("incidents")
    made = services_repository.make(folder / "services")
    options: dict[str, Any] = {"graph_policy": WORLD_GRAPH_POLICY, "code_agents": True, "code_roots": (folder,)}
    async with (
        TraceCollector() as collector,
        platform(harbour, otlp_endpoint=collector.endpoint, **options) as running,
    ):
        yield Investigated(running, made, collector)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cause.name)
async def test_each_incident_comes_to_its_cause_or_to_none(investigated: Incidents, case: Case) -> None:
    asked = await investigated.ended(case)
    output = asked.run.output.incident_investigation
    if case.cause is Cause.UNKNOWN:
        assert (asked.state, asked.run.stop_reason, output.root_cause) == ("NEEDS_REVIEW", "no_cause_found", "")
        return
    assert asked.state == "SUCCEEDED"
    assert case.behind in output.root_cause
    assert all(each.holds for each in output.evidence)
    assert output.evidence
    assert asked.run.spend.tool_calls > len(output.evidence)


async def test_every_decision_is_a_line_with_its_ids(investigated: Investigated) -> None:
    """Also where the ids hold what quoting is for; of another caller, so that it is a run of its own."""
    asked = await investigated.ended(CASES[0], "31", correlation_id=ODD)
    assert asked.run.correlation_id == ODD
    lines = investigated.routed(ODD)
    assert [(line["router"], line["rule"], line["destination"], line["tool_count"]) for line in lines] == [
        (each.router, each.rule, each.destination, json_format.MessageToDict(each.facts).get("tool_count", 0))
        for each in asked.decisions
    ]
    assert {line["router"] for line in lines} == ROUTERS
    assert {line["incident_id"] for line in lines} == {CASES[0].incident_id}
    assert [line["tool_count"] for line in lines][1:3] == [5, 2]


async def test_its_trace_leads_to_every_service_that_it_asked(investigated: Investigated) -> None:
    wanted = set(INCIDENT_EDGES)
    asked = await investigated.ended(CASES[0], "31", correlation_id=ODD)
    trace = await investigated.collector.trace(
        asked.run.trace_id, until=lambda trace: wanted <= trace.edges() and not trace.orphans()
    )
    assert wanted - trace.edges() == set()
    assert (len(trace.roots()), trace.orphans()) == (1, [])
    decided = [span.attributes for span in trace.spans.values() if "signalbox.rule" in span.attributes]
    assert decided
    assert {each["signalbox.correlation_id"] for each in decided} == {ODD}
    assert {each["signalbox.incident_id"] for each in decided} == {asked.run.input.incident_investigation.incident_id}


async def test_an_incident_is_one_run_and_another_by_its_id_is_refused(investigated: Incidents) -> None:
    client, request = investigated.client("1"), investigated.request(CASES[1])
    made = await asyncio.gather(*(client.create(request) for _ in range(5)))
    [run_id] = {run.run_id for run in made}
    request.input.incident_investigation.title = "Something else"
    request.input.incident_investigation.incident_id = CASES[1].incident_id
    with pytest.raises(Exception, match="was used with another input"):
        await client.create(request)
    await client.wait(run_id)


async def test_the_command_shows_what_it_rests_on(investigated: Investigated, tmp_path: Path) -> None:
    request = investigated.request(CASES[3])
    request.input.incident_investigation.incident_id = 'INC "2044" of the command'.replace(" ", "-")
    (tmp_path / "incident.json").write_text(
        json.dumps(
            {
                "incident_id": request.input.incident_investigation.incident_id,
                "title": "The portal times out",
                "service": "portal",
                "started_at": "2026-01-30T18:40:00Z",
                "source": {"repository": investigated.source.path, "commit": investigated.source.commit},
            }
        )
    )
    stack = investigated.running.stack
    environment = {"SIGNALBOX_TOKEN": stack.token("27"), "SIGNALBOX_GATEWAY": stack.gateway_address, "COLUMNS": "200"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli", "run", AGENT, "--input", str(tmp_path / "incident.json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    text = out.decode()
    for part in ("The disk of timeseries is full.", "offline rules, no language model", "Evidence", "Timeline",
                 "Recommendations", "(Service portal) -[DEPENDS_ON]-> (Service tracking)"):  # fmt: skip
        assert part in text, text
