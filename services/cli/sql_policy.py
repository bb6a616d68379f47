"""`signalbox sql-policy`: roles, grants and row-level security of the database that is asked, by its policy file."""

from __future__ import annotations

import asyncio
import sys

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.settings import provisioning_environment
from services.local.settings import DSN_VARIABLE

MODULE = "services.sql_executor.provisioning"
ACTIONS = ("plan", "apply", "verify", "init", "try")


async def sql_policy(action: str, *arguments: str, dsn_env: str = DSN_VARIABLE) -> ExitCode:
    """Runs the SQL executor's own command; its output is this one's, and so is its status (0, 1 or 2)."""
    if action not in ACTIONS:
        raise CliError(f"{action!r} is no action", hint=f"use one of {', '.join(ACTIONS)}", code=ExitCode.USAGE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", MODULE, "--dsn-env", dsn_env, action, *arguments,
        env=provisioning_environment(dsn_env),
    )  # fmt: skip
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return {0: ExitCode.OK, 2: ExitCode.USAGE}.get(status, ExitCode.RUN_FAILED)
