"""The scenes of `signalbox demo`: questions to a database, goals for a graph, an incident, findings about code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli import render
from services.cli.ask import Question
from services.cli.client import Connection, open_gateway
from services.cli.configured import stack_options
from services.cli.demo_findings import SCENE, play_findings
from services.cli.demo_graph import play_graph
from services.cli.demo_incident import play_incident
from services.cli.demo_replay import play_replay
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.explain import explanation
from services.cli.following import follow
from services.cli.output_files import OutputFile
from services.cli.progress import progress_on
from services.cli.runs import explanation_page
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal
from services.kit.telemetry.names import ROLE_ADMIN
from services.local.stack import LocalStack

QUESTION_TIMEOUT_S = 120.0
COUNT: Final = "Count devices with temperature > 10"


@dataclass(frozen=True)
class Scene:
    """One question of the demo, who asks it, and what must come of it."""

    title: str
    question: str
    subject: str
    roles: Sequence[str] = ()
    outcome: ExitCode = ExitCode.OK
    nodes: Sequence[str] = ()
    explained: bool = False


SCENES: Final = (
    Scene(
        "User 27 asks about their own devices",
        COUNT,
        "27",
        nodes=("screen_question", "agent", "tools"),
    ),
    Scene(
        "No example at hand is near: the agent looks for some first, then queries",
        "Give me an overview: count my devices by status",
        "27",
        nodes=("screen_question", "agent", "tools", "agent", "tools"),
        explained=True,
    ),
    Scene(
        "An admin asks the first question: no screening, everybody's devices",
        COUNT,
        "1",
        roles=(ROLE_ADMIN,),
        nodes=("screen_question", "agent", "tools"),
    ),
    Scene(
        "User 27 asks for another user's devices: the guard blocks it",
        "Show me the devices of user 31",
        "27",
        outcome=ExitCode.BLOCKED,
        nodes=("screen_question",),
    ),
)


async def play_all(settings: CliSettings, folder: Path, terminal: Terminal) -> list[str]:
    """Plays every scene on a platform of its own; returns what was not as it should be."""
    async with AsyncExitStack() as running:
        with progress_on(terminal.err) as progress:
            options = stack_options(settings, code_roots=(folder,), batches=True)
            stack = await running.enter_async_context(LocalStack(options, report=progress.say))
        problems = [problem for scene in SCENES for problem in await play(scene, stack, folder, terminal)]
        problems += await play_replay(stack, terminal)
        problems += await play_graph(stack, terminal)
        problems += await play_incident(stack, folder, terminal)
        return problems + await play_findings(SCENE, stack, folder, terminal)


async def play(scene: Scene, stack: LocalStack, folder: Path, terminal: Terminal) -> list[str]:
    """Asks the question of a scene and shows what comes of it; returns what was not as it should be.

    Where the run is explained, its page is written to the folder too.
    """
    terminal.rule(scene.title)
    terminal.out.print(Text(f"“{scene.question}”", style="italic"), Text())
    connection = Connection(stack.gateway_address, stack.token(scene.subject, scene.roles))
    async with open_gateway(connection) as gateway:
        with progress_on(terminal.err) as progress:
            request = Question(scene.question).request()
            run = await follow(gateway, request, progress, terminal, timeout_s=QUESTION_TIMEOUT_S)
        decisions = await gateway.decisions(run.run_id)
        steps = await gateway.steps(run)
        told = (await gateway.explanation(run.run_id)).told if scene.explained else {}
        page = await explanation_page(gateway, run.run_id) if scene.explained else ""
    terminal.out.print(render.answer(run))
    problems = list(check(scene, run, decisions))
    if scene.explained:
        terminal.out.print(Text("\nWhy it went that way:\n", style="bold"), explanation(run, steps, told))
        path = folder / f"{run.run_id}.html"
        OutputFile(path).write_text(page)
        size = f"{path.stat().st_size // 1024} kB of HTML"
        terminal.out.print(Text(f"\nThe same as a page: {size}. `signalbox explain RUN --html FILE` writes it."))
        problems += check_page(path.read_text("utf-8"), run, decisions)
    return problems


def check_page(page: str, run: runs_pb2.Run, decisions: Sequence[runs_pb2.Decision]) -> list[str]:
    """Looks for what the page of a run must show: the run, its route, and each of its decisions."""
    wanted = [run.run_id, *(f'id="decision-{each.sequence}"' for each in decisions)]
    problems = [f"the page of {run.run_id} lacks {part}" for part in wanted if part not in page]
    taken = page.count('class="node taken')
    visited = len({each.node for each in decisions})
    return problems if taken > visited else [*problems, f"the page of {run.run_id} shows {taken} nodes, not {visited}"]


def check(scene: Scene, run: runs_pb2.Run, decisions: Sequence[runs_pb2.Decision]) -> list[str]:
    """Compares a run with what its scene should bring."""
    problems = []
    outcome = exit_code_of(run)
    if outcome is not scene.outcome:
        problems.append(
            f"“{scene.question}” ended {outcome.name}, not {scene.outcome.name} ({run.error or 'no error'})"
        )
    nodes = tuple(decision.node for decision in decisions)
    if nodes != tuple(scene.nodes):
        problems.append(f"“{scene.question}” went through {', '.join(nodes)}, not {', '.join(scene.nodes)}")
    answered = run.output.data_chat.HasField("rows")
    if answered != (scene.outcome is ExitCode.OK):
        problems.append(f"“{scene.question}” brought {'rows' if answered else 'no rows'}")
    return problems
