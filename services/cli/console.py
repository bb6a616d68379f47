"""The terminal: output on standard output, everything about it on standard error; and how a command ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rich.console import Console
from rich.text import Text

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.local.postgres import EmbeddedPostgresError
from services.cli.local.processes import ProcessError
from services.cli.words import printable


@dataclass(frozen=True)
class Terminal:
    """Where a command writes."""

    out: Console = field(default_factory=lambda: Console(highlight=False))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))

    def json(self, message: Message) -> None:
        """Write a message as JSON with the proto's field names."""
        self.raw(MessageToJson(message, preserving_proto_field_name=True, ensure_ascii=False) + "\n")

    def json_list(self, messages: list[Message]) -> None:
        """Write messages as a JSON array."""
        texts = [MessageToJson(message, preserving_proto_field_name=True, ensure_ascii=False) for message in messages]
        self.raw("[" + ",\n".join(texts) + "]\n")

    def raw(self, text: str) -> None:
        """Write text as it is, for another program to read."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def error(self, error: CliError) -> None:
        """Say what went wrong and what to do."""
        self.err.print(Text.assemble(("error: ", "bold red"), printable(error.message)), soft_wrap=True)
        if error.hint:
            self.err.print(Text.assemble(("what to do: ", "bold"), printable(error.hint)), soft_wrap=True)


def run_command(command: Coroutine[Any, Any, ExitCode], terminal: Terminal) -> None:
    """Run a command to its end and exit with its status; Ctrl-C and SIGTERM end it in order."""
    raise typer.Exit(_status_of(command, terminal))


def _status_of(command: Coroutine[Any, Any, ExitCode], terminal: Terminal) -> ExitCode:
    try:
        return asyncio.run(_cancelled_by_sigterm(command))
    except CliError as error:
        terminal.error(error)
        return error.code
    except (ProcessError, EmbeddedPostgresError) as error:
        terminal.error(CliError(str(error), hint="mend what the log above says", code=ExitCode.RUN_FAILED))
        return ExitCode.RUN_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return ExitCode.INTERRUPTED


async def _cancelled_by_sigterm(command: Coroutine[Any, Any, ExitCode]) -> ExitCode:
    task = asyncio.ensure_future(command)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
