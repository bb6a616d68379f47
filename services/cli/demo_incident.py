"""A scene of `signalbox demo`: an incident that is seen at one service, and comes from three services behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text
from signalbox.v1 import runs_pb2, sast_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.demo_findings import make_repository
from services.cli.explain import explanation
from services.cli.following import follow
from services.cli.input_file import read_input
from services.cli.progress import progress_on
from services.cli.terminal import Terminal
from services.local.database import WORLD_POLICY
from services.local.stack import LocalStack

AGENT: Final = "incident_investigation"
SUBJECT: Final = "27"
TIMEOUT_S: Final = 120.0


@dataclass(frozen=True)
class IncidentScene:
    """An incident, and what must come of it: words in the root cause, and where the evidence is from."""

    title: str
    reported: Path
    says: tuple[str, ...]
    sources: frozenset[str]


INCIDENT: Final = IncidentScene(
    title="The portal times out: an incident is followed to its root cause",
    reported=WORLD_POLICY.parent / "incidents" / "reported" / "INC-2044.yaml",
    says=("disk", "timeseries"),
    sources=frozenset({"query", "graph_path"}),
)


async def play_incident(stack: LocalStack, folder: Path, terminal: Terminal) -> list[str]:
    """Investigates it; returns what was not as it should be. Where there is no graph, says why, and plays nothing.

    The services' repository is made in the folder, which the stack's code executor may read. Raises CliError.
    """
    if stack.graph_missing:
        terminal.rule("An incident: left out")
        terminal.out.print(Text(stack.graph_missing))
        return []
    terminal.rule(INCIDENT.title)
    made = await make_repository("examples.harbour.incidents.repository", folder / "services")
    given = read_input(AGENT, INCIDENT.reported)
    incident = given.incident_investigation
    incident.source.CopyFrom(sast_pb2.CodeSource(repository=made["path"], commit=made["commit"]))
    command = f"signalbox run {AGENT} --input {INCIDENT.reported.name} --as {SUBJECT}"
    terminal.out.print(Text(f"{command}\n“{incident.title}: {incident.text}”", style="italic"), Text())
    async with open_gateway(Connection(stack.gateway_address, stack.token(SUBJECT))) as gateway:
        with progress_on(terminal.err) as progress:
            request = runs_pb2.CreateRunRequest(input=given)
            run = await follow(gateway, request, progress, terminal, timeout_s=TIMEOUT_S)
        steps, told = await gateway.steps(run), (await gateway.explanation(run.run_id)).told
    terminal.out.print(render.answer(run))
    terminal.out.print(Text("\nWhy it went that way:\n", style="bold"), explanation(run, steps, told))
    return check(run)


def check(run: runs_pb2.Run) -> list[str]:
    """Compares a run with what its scene should bring."""
    output = run.output.incident_investigation
    if run.state != runs_pb2.RUN_STATE_SUCCEEDED:
        state = runs_pb2.RunState.Name(run.state)
        return [f"the incident came to {state} ({run.error or run.stop_reason or output.explanation})"]
    problems = [f"the root cause does not say {part!r}" for part in INCIDENT.says if part not in output.root_cause]
    problems += [f"evidence does not hold: {each.claim}: {each.problem}" for each in output.evidence if not each.holds]
    if missing := INCIDENT.sources - {each.WhichOneof("source") for each in output.evidence}:
        problems.append(f"no evidence is from: {', '.join(sorted(missing))}")
    return problems
