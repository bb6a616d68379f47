"""A command that a service has in its own package, and that is one of `signalbox` too."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from services.cli.exit_codes import ExitCode


async def run_module(module: str, *arguments: str, env: Mapping[str, str]) -> ExitCode:
    """Runs a service's own command; its output is this one's, and so is its status (0, 1 or 2)."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-m", module, *arguments, env=env)
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return {0: ExitCode.OK, 2: ExitCode.USAGE}.get(status, ExitCode.RUN_FAILED)
