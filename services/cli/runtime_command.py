"""The runtime's own commands, run as processes of their own: `signalbox` may not import the runtime."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from services.cli.exit_codes import ExitCode
from services.cli.terminal import Terminal
from services.local.settings import inherited_environment
from services.local.tether import TETHER

ENCODING = "utf-8"
# What the process lacks words for, or says in another encoding, is shown and stops neither side.
ERRORS = "backslashreplace"
READ_BYTES = 65_536
# So long may the process take to end in order; it only reads, so that nothing is lost when it is killed.
END_S = 5.0


async def runtime_command(module: str, environment: Mapping[str, str], terminal: Terminal, *arguments: str) -> ExitCode:
    """Runs a module of the runtime, and says what it says when it says it.

    Its streams lead here because what this command's streams can't take is this command's concern. It is in a session
    of its own so that Ctrl-C comes to this command alone, which ends it: it would tell of the interruption.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", TETHER, str(os.getpid()), "--"),
        *(sys.executable, "-P", "-m", module, *arguments),
        env={
            **inherited_environment(), **environment,
            "PYTHONIOENCODING": f"{ENCODING}:{ERRORS}", "PYTHONUNBUFFERED": "1",
        },
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    remarks = asyncio.create_task(_passed_on(process.stderr, terminal.remark))
    try:
        # Not a task: standard output may end this command, which is for the one who waits for it to see.
        await _passed_on(process.stdout, terminal.raw)
        await remarks
        status = await process.wait()
    finally:
        remarks.cancel()
        await _ended(process)
    return {0: ExitCode.OK, 2: ExitCode.USAGE}.get(status, ExitCode.RUN_FAILED)


async def _passed_on(said: asyncio.StreamReader | None, say: Callable[[str], None]) -> None:
    decoder = codecs.getincrementaldecoder(ENCODING)(ERRORS)
    while said and (data := await said.read(READ_BYTES)):
        if text := decoder.decode(data):
            say(text)
    if rest := decoder.decode(b"", final=True):
        say(rest)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_S)
    except TimeoutError:
        process.kill()
        await process.wait()
