"""The terminal: output on standard output, everything about it on standard error; and how a command ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO, TypeVar, cast

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.text import Text

from services.cli.errors import CliError, from_findings
from services.cli.exit_codes import ExitCode
from services.cli.listing import UNBOUNDED
from services.findings.errors import FindingsError
from services.kit.text.policy_file import PolicyFileError
from services.kit.text.printing import printable
from services.local.postgres import EmbeddedPostgresError
from services.local.processes import ProcessError

ResultT = TypeVar("ResultT")
_PADDING = re.compile(" +\n")
RULE_WIDTH = 80


def _console(*, stderr: bool) -> Console:
    """A console; what is no terminal is as wide as any line: nothing is wrapped, cut or filled up with blanks."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = UNBOUNDED
        console.file = cast(TextIO, _Unpadded("stderr" if stderr else "stdout"))
    return console


class _Unpadded:
    """A standard stream that lines reach without the blanks at their ends, with which tables fill their columns."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name

    def write(self, text: str) -> int:
        return self._stream.write(_PADDING.sub("\n", text))

    def flush(self) -> None:
        self._stream.flush()

    @property
    def encoding(self) -> str:
        return self._stream.encoding

    @property
    def _stream(self) -> TextIO:
        return sys.stdout if self._name == "stdout" else sys.stderr


@dataclass(frozen=True)
class Terminal:
    """Where a command writes."""

    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))

    def streaming(self, wanted: bool | None, *, as_json: bool) -> tuple[bool, Callable[[str], None] | None]:
        """Whether what models say is to be shown at once, and what prints it where nothing can be overwritten.

        `wanted` is what the user said; None is nothing, and a terminal shows it.
        """
        on_terminal = self.out.is_terminal and self.err.is_terminal
        if as_json or wanted is False or (wanted is None and not on_terminal):
            return False, None
        return True, None if on_terminal else self.remark

    def rule(self, title: str = "") -> None:
        """Draws a line across the terminal, with a title in it."""
        self.out.print(Rule(Text(title), align="left"), width=min(self.out.width, RULE_WIDTH))

    def json(self, message: Message) -> None:
        """Writes a message as JSON with the proto's field names."""
        self.raw(_json(message) + "\n")

    def json_list(self, messages: Sequence[Message]) -> None:
        """Writes messages as a JSON array."""
        self.raw("[" + ",\n".join(map(_json, messages)) + "]\n")

    def json_value(self, value: object) -> None:
        """Writes a value as JSON."""
        self.raw(escaped(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")

    def raw(self, text: str) -> None:
        """Writes text as it is, for another program to read."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def remark(self, text: str) -> None:
        """Writes text as it is to standard error."""
        sys.stderr.write(text)
        sys.stderr.flush()

    def error(self, error: CliError) -> None:
        """Says what went wrong and what to do."""
        self.err.print(Text.assemble(("error: ", "bold red"), printable(error.message)), soft_wrap=True)
        if error.hint:
            self.err.print(Text.assemble(("what to do: ", "bold"), printable(error.hint)), soft_wrap=True)


def run_command(command: Coroutine[Any, Any, ExitCode], terminal: Terminal) -> None:
    """Runs a command to its end and exits with its status; Ctrl-C and SIGTERM end it in order."""
    raise typer.Exit(run_part(command, terminal))


def run_part(part: Coroutine[Any, Any, ResultT], terminal: Terminal) -> ResultT:
    """Runs a part of a command and returns its result; where it fails or is interrupted, the command ends."""
    with _ending(terminal):
        return asyncio.run(_cancelled_by_sigterm(part))


def prompt(terminal: Terminal, shown: RenderableType) -> str:
    """Asks the person at the terminal. Not within an event loop, where Ctrl-C and SIGTERM would wait for the answer."""
    with _ending(terminal):
        terminal.err.print(shown)
        try:
            return terminal.err.input("> ")
        except EOFError as error:
            raise CliError("no answer was given", hint="give one with --answer", code=ExitCode.USAGE) from error


@contextmanager
def _ending(terminal: Terminal) -> Iterator[None]:
    """Ends the command with a status where what is within fails."""
    try:
        yield
    except CliError as error:
        terminal.error(error)
        raise typer.Exit(error.code) from error
    except FindingsError as error:
        wrong = from_findings(error)
        terminal.error(wrong)
        raise typer.Exit(wrong.code) from error
    except PolicyFileError as error:
        terminal.error(CliError(str(error), hint="correct the file and try again", code=ExitCode.USAGE))
        raise typer.Exit(ExitCode.USAGE) from error
    except (ProcessError, EmbeddedPostgresError) as error:
        logged = "\n" in str(error)
        hint = "fix what the log above reports" if logged else "fix that and try again"
        terminal.error(CliError(str(error), hint=hint, code=ExitCode.RUN_FAILED))
        raise typer.Exit(ExitCode.RUN_FAILED) from error
    except OSError as error:
        terminal.error(CliError(f"can't go on: {error}", hint="fix that and try again", code=ExitCode.USAGE))
        raise typer.Exit(ExitCode.USAGE) from error
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        raise typer.Exit(ExitCode.INTERRUPTED) from error


def _json(message: Message) -> str:
    return escaped(MessageToJson(message, preserving_proto_field_name=True, ensure_ascii=False))


def escaped(text: str) -> str:
    """JSON with the same value, that steers no terminal: JSON itself lets C1 controls and direction marks in strings.

    Line breaks stay: in a string they are escaped already.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        character if character.isprintable() or character in "\n " else json.dumps(character)[1:-1]
        for character in text
    )


async def _cancelled_by_sigterm(part: Coroutine[Any, Any, ResultT]) -> ResultT:
    task = asyncio.ensure_future(part)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
