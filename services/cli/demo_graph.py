"""The scenes of `signalbox demo` about a graph: it is changed, searched and corrected, and what was done is undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text
from signalbox.v1 import outcome_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.explain import explanation
from services.cli.following import follow
from services.cli.graph_edits import edit_request
from services.cli.progress import progress_on
from services.cli.questions import answer_question
from services.cli.terminal import Terminal
from services.local.stack import LocalStack

SUBJECT: Final = "27"
TIMEOUT_S = 120.0
CREATION: Final = (
    "Create a new 'Ticket' node with the key 'TICKET-123' and the properties 'summary: Fix login button' and "
    "'status: open'. Then, create a new 'User' node with the key 'john.doe' and the property 'name: John Doe'. "
    "Finally, create a 'REPORTS' edge from the 'User' node to the 'Ticket' node."
)


@dataclass(frozen=True)
class GraphScene:
    """A goal, or the scene whose changes are taken back; the answer to its question; and what must come of it."""

    title: str
    goal: str = ""
    undoes: int | None = None
    answer: str = ""
    says: Sequence[str] = ()
    explained: bool = False


SCENES: Final = (
    GraphScene(
        "User 27 has two nodes and an edge made: a plan of three operations",
        CREATION,
        says=("TICKET-123", "john.doe", "REPORTS"),
        explained=True,
    ),
    GraphScene("They look for what is open", "Find all open tickets.", says=("TICKET-123",)),
    GraphScene(
        "They change one of its properties",
        "Update the status of ticket TICKET-123 to 'in progress'.",
        says=("TICKET-123", "in progress"),
    ),
    GraphScene(
        "A goal that contradicts itself: the run asks, and goes on with the answer",
        "Create a new ticket with the key 'TICKET-456' and the status 'open'. The ticket should be closed.",
        answer="closed",
        says=("TICKET-456", "closed"),
    ),
    GraphScene("What that last run has changed is undone", undoes=3, says=("Removed", "TICKET-456")),
)


async def play_graph(stack: LocalStack, terminal: Terminal) -> list[str]:
    """Plays the scenes; returns what was not as it should be. Where there is no graph, says why, and plays none."""
    if stack.graph_missing:
        terminal.rule("Changing a graph: left out")
        terminal.out.print(Text(stack.graph_missing))
        return []
    problems: list[str] = []
    runs: list[str] = []
    async with open_gateway(Connection(stack.gateway_address, stack.token(SUBJECT))) as gateway:
        for scene in SCENES:
            run = await _play(scene, runs, gateway, terminal)
            runs.append(run.run_id)
            problems += check(scene, run)
    return problems


async def _play(scene: GraphScene, runs: Sequence[str], gateway: GatewayClient, terminal: Terminal) -> runs_pb2.Run:
    terminal.rule(scene.title)
    undone = runs[scene.undoes] if scene.undoes is not None else ""
    terminal.out.print(Text(f"“{scene.goal}”" if scene.goal else f"undo {undone}", style="italic"), Text())
    request = edit_request(scene.goal, undo_run_id=undone)
    with progress_on(terminal.err) as progress:
        run = await follow(gateway, request, progress, terminal, timeout_s=TIMEOUT_S)
    if run.state == runs_pb2.RUN_STATE_AWAITING_INPUT and scene.answer:
        terminal.out.print(render.question(run.input_request), Text(f"\nanswered: {scene.answer}\n", style="italic"))
        await answer_question(gateway, run.run_id, [scene.answer])
        with progress_on(terminal.err) as progress:
            async for event in gateway.watch(run.run_id, 0, timeout_s=TIMEOUT_S):
                progress.event(event)
        run = await gateway.get(run.run_id)
    terminal.out.print(render.answer(run))
    if scene.explained:
        steps, told = await gateway.steps(run), (await gateway.explanation(run.run_id)).told
        terminal.out.print(Text("\nWhy it went that way:\n", style="bold"), explanation(run, steps, told))
    return run


def check(scene: GraphScene, run: runs_pb2.Run) -> list[str]:
    """Compares a run with what its scene should bring."""
    output = run.output.graph_editor
    what = f"“{scene.goal or scene.title}”"
    if run.state != runs_pb2.RUN_STATE_SUCCEEDED or output.outcome != outcome_pb2.OUTCOME_DONE:
        state = runs_pb2.RunState.Name(run.state)
        return [f"{what} came to {state} ({run.error or run.stop_reason or output.answer})"]
    return [f"{what} does not say {part!r}" for part in scene.says if part not in output.answer]
