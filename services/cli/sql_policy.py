"""`signalbox sql-policy`: roles, grants and row-level security of the database that is asked, by its policy file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import (
    Roles,
    terminal,
)
from services.cli.service_module import run_module
from services.cli.settings import provisioning_environment
from services.cli.terminal import run_command
from services.local.settings import DSN_VARIABLE

commands = typer.Typer()

MODULE = "services.sql_executor.provisioning"
EXAMPLES_MODULE = "services.sql_executor.load_examples"
ACTIONS = ("plan", "apply", "verify", "init", "try")


@commands.command("sql-policy")
def sql_policy_command(
    action: Annotated[str, typer.Argument(metavar="plan|apply|verify|init|try", help="What to do.")],
    query: Annotated[str, typer.Argument(metavar="[SQL]", help="For `try`: a query.")] = "",
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Policy file (YAML).")
    ] = None,
    users: Annotated[str, typer.Option(metavar="TABLE", help="For `init`: the table of the users who own rows.")] = "",
    share_rest: Annotated[
        bool, typer.Option("--share-rest", help="For `init`: let every caller read the tables that lead to no user.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For `init`: write policy.yaml, examples.yaml and vocabulary.yaml there."),
    ] = None,
    subject: Annotated[str, typer.Option("--as", metavar="USER", help="For `try`: the caller.")] = "",
    roles: Roles = None,
    dsn_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the DSN of the tables' owner.")
    ] = DSN_VARIABLE,
) -> None:
    """Show, apply or check what a policy file needs in its database: roles, grants, row-level security.

    `apply` also reads SIGNALBOX_CALLER_SECRET and, if set, SIGNALBOX_READER_PASSWORD. `init` drafts a policy file from
    foreign keys, and with `--out` example questions and words from the schema; of rows it reads those of look-up tables
    that every caller may read. With `--policy` it drafts those two for a policy that there is. `try --as 27 "SELECT …"`
    shows what a caller sees, or why a query is refused; it reads SIGNALBOX_CALLER_SECRET, and its DSN is the reader's.
    """
    options = {"--policy": str(policy or ""), "--users": users, "--as": subject, "--out": str(out or "")}
    arguments = [part for name, value in options.items() if value for part in (name, value)]
    arguments += ["--share-rest"] if share_rest else []
    arguments += [part for role in roles or () for part in ("--role", role)]
    arguments += ["--", query] if query else []
    run_command(sql_policy(action, *arguments, dsn_env=dsn_env), terminal)


@commands.command("load-examples")
def load_examples_command(
    file: Annotated[Path, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Examples and notes (YAML).")],
    reader: Annotated[
        str, typer.Option(metavar="ROLE", help="Role that reads the examples; created when missing.")
    ] = "signalbox_examples_reader",
    dsn_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the DSN of a role that may create schemas.")
    ] = DSN_VARIABLE,
) -> None:
    """Load example questions with their SQL into a database, for the agent that writes SQL; they replace earlier ones.

    The role's password is SIGNALBOX_READER_PASSWORD.
    """
    arguments = ("--dsn-env", dsn_env, "--file", str(file), "--reader", reader)
    run_command(run_module(EXAMPLES_MODULE, *arguments, env=provisioning_environment(dsn_env)), terminal)


async def sql_policy(action: str, *arguments: str, dsn_env: str = DSN_VARIABLE) -> ExitCode:
    """Runs the SQL executor's own command; its output is this one's, and so is its status (0, 1 or 2)."""
    if action not in ACTIONS:
        raise CliError(f"{action!r} is not an action", hint=f"use one of {', '.join(ACTIONS)}", code=ExitCode.USAGE)
    env = provisioning_environment(dsn_env)
    return await run_module(MODULE, "--dsn-env", dsn_env, action, *arguments, env=env)
