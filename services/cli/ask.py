"""`signalbox ask`: put a question to the platform and show what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.text import Text
from signalbox.v1 import data_chat_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, open_gateway
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.following import follow
from services.cli.invocation import (
    Admin,
    As,
    AsJson,
    Roles,
    Stream,
    Timeout,
    terminal,
)
from services.cli.output_files import OutputFile
from services.cli.progress import progress_on
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()


@commands.command("ask")
def ask_command(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question, in natural language.")],
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    thread: Annotated[str, typer.Option(metavar="ID", help="Conversation to start or continue.")] = "",
    debug: Annotated[bool, typer.Option("--debug", help="Show messages and model calls too.")] = False,
    as_json: AsJson = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the rows as CSV.")] = None,
    stream: Stream = None,
    timeout: Timeout = None,
) -> None:
    """Ask a question of the database and show the answer.

    The exit status tells how it ended; `signalbox --help` lists them.
    """
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    asked = Question(question, thread_id=thread, want_debug=debug, want_csv=csv is not None)
    run_command(ask(connection, asked, Presentation(as_json, csv, stream), terminal, timeout_s=timeout), terminal)


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
    """How the answer is shown: as JSON, or for people, while it comes or not; and a file for the rows."""

    as_json: bool = False
    csv_file: Path | None = None
    stream: bool | None = None


async def ask(
    connection: Connection, question: Question, how: Presentation, terminal: Terminal, *, timeout_s: float | None
) -> ExitCode:
    """Ask, show the progress, then the answer."""
    csv_file = OutputFile(how.csv_file) if how.csv_file else None
    if csv_file is not None:
        csv_file.check()
        csv_file.remove_older()
    async with open_gateway(connection) as gateway:
        chunks, say = terminal.streaming(how.stream, as_json=how.as_json)
        with progress_on(terminal.err, silent=how.as_json, say=say) as progress:
            request = question.request()
            run = await follow(gateway, request, progress, terminal, timeout_s=timeout_s, token_chunks=chunks)
    if how.as_json:
        terminal.json(run)
    else:
        terminal.out.print(render.answer(run))
    if csv_file is not None:
        _write_csv(csv_file, run, terminal)
    return exit_code_of(run)


def _write_csv(csv_file: OutputFile, run: runs_pb2.Run, terminal: Terminal) -> None:
    if not run.output.data_chat.HasField("rows"):
        terminal.err.print(Text(f"no rows came back, so {csv_file.path} was not written"))
        return
    csv_file.write_text(run.output.data_chat.csv)
    count = len(run.output.data_chat.rows.rows)
    terminal.err.print(Text(f"{count} {'row' if count == 1 else 'rows'} written to {csv_file.path}"))
