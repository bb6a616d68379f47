"""A run from its request to its end, with its progress on the way."""

from __future__ import annotations

import asyncio

from rich.text import Text
from signalbox.v1 import runs_pb2

from services.cli.client import GatewayClient
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.progress import Progress
from services.cli.terminal import Terminal
from services.kit.wire.event_kinds import RUN_ENDED


async def follow(
    gateway: GatewayClient,
    request: runs_pb2.CreateRunRequest,
    progress: Progress,
    terminal: Terminal,
    *,
    timeout_s: float | None,
    token_chunks: bool = False,
) -> runs_pb2.Run:
    """Creates a run, follow it to its end, or to where it awaits input, and returns it. Raises CliError."""
    run_id = ""
    try:
        async for event in gateway.execute(request, timeout_s=timeout_s, token_chunks=token_chunks):
            run_id = event.run_id
            progress.event(event)
            if event.WhichOneof("event") == RUN_ENDED:
                return event.run_ended.run
    except asyncio.CancelledError:
        if run_id:
            terminal.err.print(
                Text(f"the run continues: `signalbox show {run_id}` shows it, `signalbox cancel {run_id}` stops it")
            )
        raise
    if not run_id:
        raise CliError("the gateway ended the stream without a word", hint="look in its log", code=ExitCode.UNREACHABLE)
    return await gateway.get(run_id)  # it awaits input
