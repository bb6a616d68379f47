"""A load of all agents: each caller asks one thing again and again, editors make tickets and take back some of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from signalbox.v1 import caller_pb2, outcome_pb2, runs_pb2, sast_pb2

from examples.harbour import repository as portal
from examples.harbour.incidents import repository as services_repository
from examples.harbour.incidents.world import CASES
from services.cli.graph_edits import edit_request
from services.cli.triage import triage_input
from services.findings.investigation.items import investigation_input
from services.findings.investigation.repository import open_source
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.paths import RepositoryPaths
from tests.chaos.deployment import until
from tests.chaos.load import CUT, WatchedRun, hear_out
from tests.e2e.test_graph_editor import THREE_STEPS
from tests.e2e.test_hosted_graphs import asking
from tests.e2e.test_incidents import Incidents
from tests.fixtures.client import RunClient, question
from tests.fixtures.stack import Platform

EDITOR = "chaos"
# What is asked for again because somebody died is spent again, and what is away is waited for.
PATIENT = caller_pb2.Budget(wall_time_s=1200, tool_calls=1000, model_calls=1000)


@dataclass
class MixedLoad:
    """Callers of every agent, what they were told, and the tickets that there must be."""

    running: Platform
    requests: dict[str, runs_pb2.CreateRunRequest]
    random: Random
    told: list[WatchedRun] = field(default_factory=list)
    tickets: dict[str, str] = field(default_factory=dict)
    stopping: bool = False

    async def ask(self, name: str, create: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        """Asks, and listens to the end, coming back whenever the connection breaks."""
        create.request_id = str(uuid4())
        create.budget.CopyFrom(PATIENT)
        if create.input.HasField("incident_investigation"):
            create.input.incident_investigation.incident_id = f"INC-{create.request_id}"
        watched = WatchedRun(name)
        await hear_out(self.client(name), create, watched, mending=CUT)
        self.told.append(watched)
        return watched.run

    def client(self, name: str) -> RunClient:
        """Who asks."""
        return self.running.caller(EDITOR if name == "edit" else "27")

    async def ask_on(self, name: str) -> None:
        """Asks the same again and again."""
        while not self.stopping:
            await self.ask(name, self.requests[name])

    async def edit_on(self) -> None:
        """Makes a ticket with its user, closes it, and takes back nothing, the last change or both."""
        while not self.stopping:
            key = f"T-{uuid4().hex[:8]}"
            made = await self.ask("edit", edit_request(THREE_STEPS.format(ticket=key, user=f"u.{key}")))
            self.tickets[key] = "open"
            closed = await self.ask("edit", edit_request(f"Update the status of ticket {key} to 'closed'."))
            self.tickets[key] = "closed"
            for change, left in [(closed, "open"), (made, "")][: self.random.randint(0, 2)]:
                await self.ask("edit", edit_request(undo_run_id=change.run_id))
                self.tickets[key] = left

    async def more(self, count: int) -> None:
        """Waits until so many more runs have ended."""
        wanted = len(self.told) + count

        async def ended() -> bool:
            return len(self.told) >= wanted

        await until(ended, f"{count} more runs to end")


def ended_as(run: runs_pb2.Run) -> tuple[Any, ...]:
    """What a run came to: its state and outcome, and what it found; not in which words, which nothing waits for."""
    output = getattr(run.output, run.output.WhichOneof("agent"))
    names = [name for name in ("rows", "verdict", "root_cause") if name in output.DESCRIPTOR.fields_by_name]
    said = [str(getattr(output, name)) for name in names]
    return runs_pb2.RunState.Name(run.state), outcome_pb2.Outcome.Name(run.outcome), run.stop_reason, run.error, *said


async def requests_in(folder: Path, running: Platform) -> dict[str, runs_pb2.CreateRunRequest]:
    """What is asked, by name; the repositories that it is about are made in a folder."""
    finding, code = await finding_in(portal.create(folder / "portal"))
    incidents = Incidents(running, services_repository.make(folder / "services"))
    return {
        "question": question("How many devices do I have?"),
        "triage": runs_pb2.CreateRunRequest(input=triage_input(finding, code)),
        "investigation": runs_pb2.CreateRunRequest(input=investigation_input(finding, code)),
        "incident": incidents.request(CASES[0]),
        "hosted": asking("slow_chain", until=6),
    }


async def finding_in(made: portal.ServiceRepository) -> tuple[sast_pb2.Finding, sast_pb2.CodeSource]:
    """A finding of the portal, and where its code is."""
    source = await open_source(made.path, made.commit)
    [first, *_] = read_results(read_document(portal.FINDINGS), RepositoryPaths(root=made.path, files=source.files))
    return first.finding, sast_pb2.CodeSource(repository=made.path, commit=made.commit)
