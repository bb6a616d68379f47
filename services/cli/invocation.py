"""What every command of `signalbox` shares: common options, the gateway it talks to, and how it says what is wrong."""

from __future__ import annotations

from typing import Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import ValidationError
from pydantic_settings import SettingsError

from services.cli.client import Connection
from services.cli.connection import Identity, connect_to
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal
from services.kit.text.words import parse_moment

terminal = Terminal()

As = Annotated[str | None, typer.Option("--as", metavar="USER", help="Act as this user, with a development token.")]
Admin = Annotated[bool, typer.Option("--admin", help="Act with the role admin.")]
Roles = Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="Act with this role; repeatable.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Its id, the beginning of it, or `last`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Show what models say while they say it; by default on a terminal. The final answer may differ.",
        show_default=False,
    ),
]
LONGEST_TIMEOUT_S = 1e9


def takeable(timeout: float | None) -> float | None:
    """Refuses a time so long that gRPC would take its end for one that is past."""
    if timeout is None or timeout <= LONGEST_TIMEOUT_S:
        return timeout
    raise typer.BadParameter(f"{timeout} is more than {LONGEST_TIMEOUT_S:,.0f} s")


def moment_given(text: str) -> Timestamp:
    """Reads a time as tables show it, or with an offset from UTC."""
    try:
        return parse_moment(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Since = Annotated[
    Timestamp | None,
    typer.Option(
        "--since",
        parser=moment_given,
        metavar="TIME",
        help="Only from this time on: 2h, 7d, yesterday, or a date and time.",
    ),
]
Until = Annotated[
    Timestamp | None,
    typer.Option("--until", parser=moment_given, metavar="TIME", help="Only before this time, in the same words."),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Wait at most this long.", callback=takeable),
]
Gateway = Annotated[
    str,
    typer.Option("--gateway", metavar="HOST:PORT", help="Gateway to talk to, instead of the one of `signalbox up`."),
]


class Invocation:
    """What comes before the command's own options."""

    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self.settings = load_settings()

    def connection(
        self, subject: str | None, *, admin: bool = False, roles: list[str] | None = None, must_name: bool = False
    ) -> Connection:
        """The gateway and the token to use; ends the command when there is none.

        `must_name`: the command acts for a user, so that the local operator will not do.
        """
        try:
            identity = Identity.of(subject, admin=admin, roles=roles or (), must_name=must_name)
            return connect_to(self.settings, identity, gateway=self.gateway)
        except CliError as error:
            raise fail(error) from error


def load_settings() -> CliSettings:
    """Settings from the environment; ends the command when they are wrong."""
    try:
        return CliSettings()
    except ValidationError as error:
        names = ", ".join("SIGNALBOX_" + str(problem["loc"][0]).upper() for problem in error.errors())
        wrong = CliError(f"invalid environment variables: {names}", hint="correct or unset them", code=ExitCode.USAGE)
        raise fail(wrong) from error
    except SettingsError as error:  # a value that should be JSON and is not
        wrong = CliError(str(error), hint="correct it, or unset it", code=ExitCode.USAGE)
        raise fail(wrong) from error


def fail(error: CliError) -> typer.Exit:
    """Says what is wrong; the caller raises what this returns."""
    terminal.error(error)
    return typer.Exit(error.code)
