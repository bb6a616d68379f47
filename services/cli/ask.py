"""`signalbox ask`: put a question to the platform and show what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rich.text import Text
from signalbox.v1 import data_chat_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.console import Terminal
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.progress import Progress, progress_on


@dataclass(frozen=True)
class Question:
    """A question and what is wanted with its answer."""

    text: str
    thread_id: str = ""
    want_debug: bool = False
    want_csv: bool = False

    def request(self) -> runs_pb2.CreateRunRequest:
        """The request that asks it; repeatable, as it has an id of its own."""
        question = data_chat_pb2.DataChatInput(question=self.text, want_csv=self.want_csv, want_debug=self.want_debug)
        return runs_pb2.CreateRunRequest(
            input=runs_pb2.RunInput(data_chat=question), request_id=str(uuid4()), thread_id=self.thread_id
        )


@dataclass(frozen=True)
class Presentation:
    """How the answer is shown: as JSON, or for people; and a file for the rows."""

    as_json: bool = False
    csv_file: Path | None = None


async def ask(
    connection: Connection, question: Question, how: Presentation, terminal: Terminal, *, timeout_s: float | None
) -> ExitCode:
    """Ask, show the progress, then the answer."""
    _check_writable(how.csv_file)
    async with open_gateway(connection) as gateway:
        with progress_on(terminal.err, silent=how.as_json) as progress:
            run = await follow(gateway, question, progress, terminal, timeout_s=timeout_s)
    if how.as_json:
        terminal.json(run)
    else:
        terminal.out.print(render.answer(run))
    if how.csv_file is not None:
        _write_csv(how.csv_file, run, terminal)
    return exit_code_of(run)


async def follow(
    gateway: GatewayClient, question: Question, progress: Progress, terminal: Terminal, *, timeout_s: float | None
) -> runs_pb2.Run:
    """Run a question to its end, or to where it awaits input, and return the run."""
    run_id = ""
    try:
        async for event in gateway.execute(question.request(), timeout_s=timeout_s):
            run_id = event.run_id
            progress.event(event)
            if event.WhichOneof("event") == "run_ended":
                return event.run_ended.run
    except asyncio.CancelledError:
        if run_id:
            terminal.err.print(
                Text(f"the run goes on: `signalbox show {run_id}` shows it, `signalbox cancel {run_id}` stops it")
            )
        raise
    if not run_id:
        raise CliError(
            "the gateway ended the stream without a word", hint="its log tells more", code=ExitCode.UNREACHABLE
        )
    return await gateway.get(run_id)  # it awaits input


def _check_writable(csv_file: Path | None) -> None:
    # Before anything is spent on the question.
    if csv_file is not None and not csv_file.absolute().parent.is_dir():
        raise CliError(
            f"can't write {csv_file}: there is no directory {csv_file.absolute().parent}",
            hint="make the directory first, or name another file",
            code=ExitCode.USAGE,
        )


def _write_csv(csv_file: Path, run: runs_pb2.Run, terminal: Terminal) -> None:
    if not run.output.data_chat.HasField("rows"):
        terminal.err.print(Text(f"no rows came back, so {csv_file} was not written"))
        return
    try:
        csv_file.write_text(run.output.data_chat.csv, encoding="utf-8", newline="")
    except OSError as error:
        raise CliError(
            f"can't write {csv_file}: {error.strerror}", hint="name a file you may write", code=ExitCode.USAGE
        ) from error
    count = len(run.output.data_chat.rows.rows)
    terminal.err.print(Text(f"{count} {'row' if count == 1 else 'rows'} written to {csv_file}"))
