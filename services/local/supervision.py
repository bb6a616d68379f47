"""Starts again what dies of a running platform, and says so."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat

from services.local.concurrency import together
from services.local.falkordb import FalkorServer
from services.local.postgres import EmbeddedPostgres
from services.local.processes import ProcessError, ServiceProcess
from services.local.stack import LocalStack

# Before each attempt in a row; from the first again once a process ran for a while.
PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 60.0
POSTGRES = "Postgres"

Say = Callable[[str], None]


async def supervise(stack: LocalStack, say: Say, *, pauses_s: Sequence[float] = PAUSES_S) -> None:
    """Keeps a platform running until cancelled; `say` is told of each part's end, and of each start after it."""
    server = stack.databases.server
    await together(
        *(keep_running(process, say, pauses_s=pauses_s) for process in stack.kept),
        *([_tell_of_postgres(server, say)] if server else []),
    )


async def keep_running(
    process: ServiceProcess | FalkorServer, say: Say, *, pauses_s: Sequence[float] = PAUSES_S
) -> None:
    """Starts a process again, where it listened before, whenever it ends; after longer pauses while it keeps dying."""
    pauses = _pauses(pauses_s)
    while True:
        since = time.monotonic()
        status = await process.wait()
        if time.monotonic() - since > STEADY_S:
            pauses = _pauses(pauses_s)
        pause_s = next(pauses)
        when = f"in {pause_s:g} s" if pause_s else "now"
        say(f"{process.name} {describe_end(status)}; it is started again {when} (its log: {process.log_file})")
        await asyncio.sleep(pause_s)
        try:
            await process.start()
        except (ProcessError, OSError) as error:
            say(str(error))
        else:
            say(f"{process.name} is back")


def describe_end(status: int) -> str:
    """How a process ended, as a sentence goes on: `was ended by SIGKILL`, `ended with status 1`."""
    if status < 0:
        number = -status
        return f"was ended by {signal.Signals(number).name if number in set(signal.Signals) else f'signal {number}'}"
    return f"ended with status {status}"


async def _tell_of_postgres(server: EmbeddedPostgres, say: Say) -> None:
    async for restart in server.restarts():
        say(f"{POSTGRES} {describe_end(restart.ended)}; it is started again now")
        say(f"{POSTGRES} did not start: {restart.error}" if restart.error else f"{POSTGRES} is back")
    say(f"{POSTGRES} has stopped, and is not started again: stop `signalbox up` and start it anew")
    await asyncio.Event().wait()


def _pauses(seconds: Sequence[float]) -> Iterator[float]:
    return chain(seconds, repeat(seconds[-1]))
