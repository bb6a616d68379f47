"""`signalbox up` and `dev`: the whole platform on this machine until Ctrl-C, with the graphs of folders."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from services.cli.endpoint import Endpoint, check_listen, only_one, write_endpoint
from services.cli.exit_codes import ExitCode
from services.cli.invocation import (
    terminal,
)
from services.cli.progress import progress_on
from services.cli.service_settings import ServiceSettings, check_service_settings, parse_service_settings
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal, run_command
from services.kit.models.prompt_files import SETTING
from services.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER

if TYPE_CHECKING:
    from services.local.stack import LocalStack

Http = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Serve LangGraph's SDKs there, too (docs/http.md)."),
]
commands = typer.Typer()
McpServers = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        resolve_path=True,
        help="MCP servers (YAML) whose tools graphs may call, once they are allowed and accepted.",
    ),
]
PASSWORDS = "pgpass"
AGENT_FOLDERS = "SIGNALBOX_AGENT_FOLDERS"
CHANGED_BY = "SIGNALBOX_CHANGED_BY"
WITH_PROMPTS = ("runtime", "guard", "evaluator")
# Of a folder that is being written in: what does not start is tried again soon.
PAUSES_IN_DEVELOPMENT_S = (0.0, 1.0, 2.0)


@commands.command("up")
def up_command(
    context: typer.Context,
    replicas: Annotated[int, typer.Option(min=1, max=16, help="Replicas of the runtime.")] = 1,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the gateway.")] = "127.0.0.1:0",
    http: Http = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the database in this directory.")] = None,
    code_root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", exists=True, file_okay=False, help="Let agents read the git repositories here; repeatable."
        ),
    ] = None,
    agents: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Offer the graphs in its langgraph.json; repeatable.",
        ),
    ] = None,
    mcp_servers: McpServers = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            resolve_path=True,
            help="Use its prompts and checklists instead of the built-in ones.",
        ),
    ] = None,
    batches: Annotated[
        bool, typer.Option("--batches/--no-batches", help="Start the service for batches, which `investigate` needs.")
    ] = True,
    settings: ServiceSettings = None,
) -> None:
    """Start the whole platform on this machine and keep it running until Ctrl-C."""
    command = _up(
        context.obj.settings,
        terminal,
        replicas=replicas,
        listen=listen,
        http=http,
        data_dir=data,
        code_roots=code_root or (),
        service_settings=settings or (),
        agent_folders=agents or (),
        prompts=prompts,
        batches=batches,
        mcp_servers=mcp_servers,
    )
    run_command(command, terminal)


@commands.command("dev")
def dev_command(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Folder with a langgraph.json.")
    ],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the gateway.")] = "127.0.0.1:0",
    http: Http = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the database in this directory.")] = None,
    mcp_servers: McpServers = None,
    settings: ServiceSettings = None,
) -> None:
    """Start the platform with the graphs of a folder, and load them again when its files change, until Ctrl-C."""
    command = _up(
        context.obj.settings,
        terminal,
        replicas=1,
        listen=listen,
        http=http,
        data_dir=data,
        service_settings=settings or (),
        agent_folders=(folder,),
        mcp_servers=mcp_servers,
        reloads=True,
    )
    run_command(command, terminal)


async def _up(
    settings: CliSettings,
    terminal: Terminal,
    *,
    replicas: int,
    listen: str,
    http: str | None = None,
    data_dir: Path | None,
    code_roots: Sequence[Path] = (),
    service_settings: Sequence[str] = (),
    agent_folders: Sequence[Path] = (),
    prompts: Path | None = None,
    batches: bool = False,
    mcp_servers: Path | None = None,
    reloads: bool = False,
) -> ExitCode:
    """Starts everything, says where it is, and keeps it running until Ctrl-C: what dies is started again."""
    from services.cli.configured import stack_options  # what these import comes with the extra `local` only
    from services.local.concurrency import together
    from services.local.reloading import reload_on_change  # as those below
    from services.local.stack import LocalStack
    from services.local.supervision import supervise

    check_listen(listen)
    if http:
        check_listen(http, "--http")
    service_env = parse_service_settings(service_settings)
    await check_service_settings(service_env)
    folders = [folder.resolve() for folder in agent_folders]
    if folders:
        offered = {AGENT_FOLDERS: ",".join(map(str, folders))}
        service_env = {**service_env, "runtime": {**offered, **service_env.get("runtime", {})}}
    service_env = with_author(with_prompts(service_env, prompts))
    with only_one(settings.runtime_dir) as files:
        options = stack_options(
            settings,
            directory=files,
            runtime_replicas=replicas,
            gateway_listen=listen,
            http_replicas=1 if http else 0,
            http_listen=http or "127.0.0.1:0",
            data_dir=data_dir,
            code_roots=tuple(root.resolve() for root in code_roots),
            mcp_servers=mcp_servers,
            service_env=service_env,
            batches=batches,
        )
        async with AsyncExitStack() as resources:
            with progress_on(terminal.err) as progress:
                stack = await resources.enter_async_context(LocalStack(options, report=progress.say))
            try:
                write_endpoint(settings.runtime_dir, _endpoint(stack))
                _greet(stack, terminal)

                def say(words: str) -> None:
                    terminal.err.print(Text(words), soft_wrap=True)

                for note in notes_in(stack.runtimes[0].logs()):
                    say(f"langgraph.json: {note}")
                if reloads:
                    await together(
                        supervise(stack, say, pauses_s=PAUSES_IN_DEVELOPMENT_S), reload_on_change(stack, folders, say)
                    )
                else:
                    await supervise(stack, say)
            except asyncio.CancelledError:  # Ctrl-C or SIGTERM: how this command ends well
                terminal.err.print(Text("stopping"))
            return ExitCode.OK


def with_prompts(service_env: Mapping[str, dict[str, str]], folder: Path | None) -> dict[str, dict[str, str]]:
    """Returns settings by service with a folder of prompts for those that ask models; what is set for one stays."""
    if folder is None:
        return dict(service_env)
    return {**service_env, **{each: {SETTING: str(folder), **service_env.get(each, {})} for each in WITH_PROMPTS}}


def with_author(service_env: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Returns settings by service with the user of this machine as who changes limits, where that is known."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return dict(service_env)
    return {**service_env, "runtime": {CHANGED_BY: user, **service_env.get("runtime", {})}}


def _endpoint(stack: LocalStack) -> Endpoint:
    return Endpoint(
        gateway=stack.gateway_address,
        signing_key=str(stack.keys.signing_key),
        issuer=DEVELOPMENT_ISSUER,
        audience=DEVELOPMENT_AUDIENCE,
        pid=os.getpid(),
        code_roots=[str(root) for root in stack.options.code_roots],
    )


def _databases(stack: LocalStack) -> Iterator[tuple[str, str]]:
    """Where the databases are, without passwords: that of a server of ours is in a file that the DSN names."""
    from services.local.database import without_password, write_passwords  # with what comes with the extra `local` only

    given = stack.databases
    passwords = f"passfile={stack.directory / PASSWORDS}" if given.server else ""
    dsns = {"the platform's database": given.platform_dsn, "the demo world": given.world_dsn}
    if given.server:
        write_passwords(stack.directory / PASSWORDS, [dsn for dsn in dsns.values() if dsn])
    for label, dsn in dsns.items():
        if dsn:
            yield label, without_password(dsn, passwords)
    if stack.options.graph_policy and not stack.graph_missing:
        yield "the graph database", stack.graph_database.url


def notes_in(log: str) -> list[str]:
    """Returns what of folders' `langgraph.json` has no effect, or another one, as a replica's log has it."""
    found = []
    for line in log.split("\n"):
        with suppress(ValueError):  # Code of graphs prints what it likes while it is imported.
            logged = json.loads(line) if '"langgraph.json"' in line else None
            if isinstance(logged, dict) and logged.get("event") == "langgraph.json":
                found.append(f"{logged['folder']}: {logged['note']}")
    return list(dict.fromkeys(found))


def _greet(stack: LocalStack, terminal: Terminal) -> None:
    lines = [
        ("Signalbox is up, its gateway at ", stack.gateway_address),
        *[("HTTP for LangGraph's SDKs: ", f"http://{each.ready.listen}") for each in stack.http_apis],
        ("ask in another terminal: ", 'signalbox ask "Count devices with temperature > 10" --as 27'),
        *[("findings there can be investigated: ", str(root)) for root in stack.options.code_roots],
        *[(f"{label}: ", dsn) for label, dsn in _databases(stack)],
        ("logs: ", str(stack.directory)),
        *[
            ("metrics: ", f"http://{each.ready.metrics}/metrics {each.name} listens at {each.ready.listen}")
            for each in stack.services
        ],
        ("stop: ", "Ctrl-C"),
    ]
    for label, value in lines:
        terminal.out.print(Text.assemble((label, "dim"), value), soft_wrap=True)
