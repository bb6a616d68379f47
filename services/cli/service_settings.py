"""Settings for single services of a local platform, as `up --set SERVICE.NAME=VALUE` gives them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.local.settings import inherited_environment
from services.local.topology import SERVICES

ServiceSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SERVICE.NAME=VALUE", help="Set a setting of one service (docs/settings.md); repeatable."
    ),
]
PREFIX = "SIGNALBOX_"
HINT = "write --set SERVICE.NAME=VALUE, such as --set runtime.SIGNALBOX_LEASE_S=5; docs/settings.md lists them all"


def parse_service_settings(settings: Iterable[str]) -> dict[str, dict[str, str]]:
    """The environment of each service, of `service.NAME=value` texts. Raises CliError."""
    env: dict[str, dict[str, str]] = {}
    for setting in settings:
        place, equals, value = setting.partition("=")
        service, dot, name = place.partition(".")
        if not (equals and dot and name.startswith(PREFIX)):
            raise CliError(f"{setting!r} sets nothing", hint=HINT, code=ExitCode.USAGE)
        if service not in SERVICES:
            known = ", ".join(SERVICES)
            raise CliError(f"there is no service {service!r}; there are: {known}", hint=HINT, code=ExitCode.USAGE)
        env.setdefault(service, {})[name] = value
    return env


async def check_service_settings(env: Mapping[str, Mapping[str, str]]) -> None:
    """Asks each service whether it has the settings that are named for it. Raises CliError for those it has not."""
    slips = "\n".join([told for service, names in env.items() if (told := await _unknown(service, names))])
    if slips:
        raise CliError(slips, hint=HINT, code=ExitCode.USAGE)


async def _unknown(service: str, names: Iterable[str]) -> str:
    # A service's own program says what it knows: no service imports another, nor does this command.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "services.kit.known_settings", service, *names,
        env=inherited_environment(), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, told = await process.communicate()
    return told.decode(errors="replace").strip() if process.returncode else ""
