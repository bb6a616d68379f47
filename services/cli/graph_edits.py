"""`signalbox edit-graph` and `undo`: goals for a property graph, and taking back what they changed."""

from __future__ import annotations

from uuid import uuid4

from signalbox.v1 import graph_editor_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.following import follow
from services.cli.progress import progress_on
from services.cli.terminal import Terminal


def edit_request(goal: str = "", *, preview: bool = False, undo_run_id: str = "") -> runs_pb2.CreateRunRequest:
    """The request for a goal, or for an undo; repeatable, as it has an id of its own."""
    edit = graph_editor_pb2.GraphEditorInput(goal=goal, preview=preview, undo_run_id=undo_run_id)
    return runs_pb2.CreateRunRequest(input=runs_pb2.RunInput(graph_editor=edit), request_id=str(uuid4()))


async def edit_graph(
    connection: Connection,
    request: runs_pb2.CreateRunRequest,
    terminal: Terminal,
    *,
    as_json: bool,
    timeout_s: float | None,
) -> ExitCode:
    """Asks for it, shows the progress, then the answer or the question that the run waits with."""
    async with open_gateway(connection) as gateway:
        with progress_on(terminal.err, silent=as_json) as progress:
            run = await follow(gateway, request, progress, terminal, timeout_s=timeout_s)
    if as_json:
        terminal.json(run)
    else:
        terminal.out.print(render.answer(run))
    return exit_code_of(run)
