"""`signalbox check-model`: whether a model endpoint is fit for the platform, before a first question is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import (
    AsJson,
    takeable,
    terminal,
)
from services.cli.progress import progress_on
from services.cli.service_settings import ServiceSettings, check_service_settings, parse_service_settings
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal, run_command

commands = typer.Typer()


@commands.command("check-model")
def check_model_command(
    context: typer.Context,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Time limit for one call.", callback=takeable)
    ] = 60,
    settings: ServiceSettings = None,
    as_json: AsJson = False,
) -> None:
    """Try the models of OPENAI_BASE_URL: key, names, tools, context, structured output, the guard's verdict, speed.

    The exit status is 1 when a model does not do what the platform needs of it.
    """
    command = _check_model(
        context.obj.settings, terminal, timeout_s=timeout, service_settings=settings or (), as_json=as_json
    )
    run_command(command, terminal)


async def _check_model(
    settings: CliSettings, terminal: Terminal, *, timeout_s: float, service_settings: Sequence[str], as_json: bool
) -> ExitCode:
    """Tries every model that the settings name in each of its roles, and shows what was seen. Raises CliError."""
    from services.cli.configured import model_endpoint  # what these import comes with the extra `local` only
    from services.cli.model_checks import as_listing, run_checks

    endpoint = model_endpoint(settings)
    if endpoint is None:
        raise CliError(
            "no model endpoint is set, so that there is none to check: the offline model is used",
            hint="set OPENAI_BASE_URL, OPENAI_API_KEY and SIGNALBOX_AGENT_MODEL",
            code=ExitCode.USAGE,
        )
    service_env = parse_service_settings(service_settings)
    await check_service_settings(service_env)
    with progress_on(terminal.err, silent=as_json) as progress:
        checks = [check async for check in run_checks(endpoint, service_env, progress, timeout_s=timeout_s)]
    if as_json:
        terminal.json_value([asdict(check) for check in checks])
    else:
        terminal.out.print(as_listing(checks))
    return ExitCode.OK if all(check.ok for check in checks) else ExitCode.RUN_FAILED
