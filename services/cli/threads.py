"""`signalbox threads` and `signalbox thread`: conversations, read back, forked and deleted."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.json import JSON
from rich.text import Text
from signalbox.v1 import threads_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.exit_codes import ExitCode
from services.cli.listing import Listing
from services.cli.terminal import Terminal
from services.kit.text.printing import printable
from services.kit.text.words import moment, struct_json

PAGE = 500


async def list_threads(connection: Connection, terminal: Terminal, *, limit: int, as_json: bool) -> ExitCode:
    """Shows the newest threads."""
    async with open_gateway(connection) as gateway:
        threads = await _threads(gateway, limit)
    if as_json:
        terminal.json_list(list(threads))
    elif threads:
        terminal.out.print(thread_list(threads))
    else:
        terminal.err.print(Text("no threads yet"))
    return ExitCode.OK


async def show(connection: Connection, thread_id: str, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Shows a thread and its runs."""
    async with open_gateway(connection) as gateway:
        request = threads_pb2.GetThreadRequest(thread_id=thread_id)
        found = await gateway.call(gateway.threads.GetThread, request)
    if as_json:
        terminal.json(found)
    else:
        terminal.out.print(Group(thread_list([found.thread]), Text(), render.run_list(found.runs)))
    return ExitCode.OK


async def show_state(
    connection: Connection, thread_id: str, run_id: str, checkpoint_id: str, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Shows the state of a run of a thread at a checkpoint, and the checkpoints there are."""
    async with open_gateway(connection) as gateway:
        request = threads_pb2.GetThreadStateRequest(thread_id=thread_id, run_id=run_id, checkpoint_id=checkpoint_id)
        found = await gateway.call(gateway.threads.GetThreadState, request)
    if as_json:
        terminal.json(found)
    else:
        terminal.out.print(state(found))
    return ExitCode.OK


async def fork(
    connection: Connection, request: threads_pb2.ForkThreadRequest, terminal: Terminal, *, as_json: bool
) -> ExitCode:
    """Makes a thread of another's history."""
    async with open_gateway(connection) as gateway:
        made = await gateway.call(gateway.threads.ForkThread, request)
    if as_json:
        terminal.json(made)
        return ExitCode.OK
    terminal.out.print(Text(f"thread {printable(made.thread.thread_id)} starts with {made.thread.run_count} runs"))
    if made.HasField("run"):
        terminal.out.print(Text(f"run {printable(made.run.run_id)} goes on from the checkpoint"))
    return ExitCode.OK


async def delete(connection: Connection, thread_id: str, terminal: Terminal) -> ExitCode:
    """Deletes a thread."""
    async with open_gateway(connection) as gateway:
        request = threads_pb2.DeleteThreadRequest(thread_id=thread_id)
        gone = await gateway.call(gateway.threads.DeleteThread, request)
    what = f"{gone.run_count} runs deleted, {gone.decision_count} decisions blanked in the ledger"
    terminal.out.print(Text(f"{printable(thread_id)} is gone: {what}"))
    return ExitCode.OK


async def _threads(gateway: GatewayClient, limit: int) -> list[threads_pb2.Thread]:
    threads: list[threads_pb2.Thread] = []
    request = threads_pb2.ListThreadsRequest()
    while len(threads) < limit:
        request.page_size = min(limit - len(threads), PAGE)
        page = await gateway.call(gateway.threads.ListThreads, request)
        threads.extend(page.threads)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    return threads


def thread_list(threads: list[threads_pb2.Thread]) -> Listing:
    """Threads."""
    shown = Listing("thread", "runs", "active run", "latest run", "created", right=("runs",))
    for thread in threads:
        shown.add(
            thread.thread_id, str(thread.run_count), thread.active_run_id,
            moment(thread.latest_run_time), moment(thread.create_time),
        )  # fmt: skip
    return shown


def state(found: threads_pb2.GetThreadStateResponse) -> RenderableType:
    """A run's state at a checkpoint, behind the checkpoints that it has."""
    table = Listing("", "step", "checkpoint", "written", right=("step",))
    shown = found.state.checkpoint
    for checkpoint in found.checkpoints:
        mark = "→" if checkpoint == shown else ""
        table.add(mark, str(checkpoint.step), checkpoint.checkpoint_id, moment(checkpoint.create_time))
    following = ", ".join(printable(node) for node in found.state.next_nodes) or "the end"
    return Group(table, Text(f"\nnext: {following}\n"), JSON(struct_json(found.state.values)))
