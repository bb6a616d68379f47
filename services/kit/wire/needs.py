"""What a service needs before it can serve: waited for, with a line in the log that names it.

Ending instead would leave the waiting to whoever starts the service again, at growing intervals and without a word.
What is wrong however long one waits, such as a setting, is no need: it ends the service at once. Nor is a peer: it is
looked for in the same way, but a service without one can still say so to whoever calls it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc

from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import detached

log = get_logger()
T = TypeVar("T")
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
SAY_EVERY_S = 30.0


async def needed(what: str, get: Callable[[], Awaitable[T]], *, absent: tuple[type[Exception], ...]) -> T:
    """Returns what `get` gives; while it raises one of `absent`, waits and tries again, until it is cancelled."""
    began, said_at, pause_s = time.monotonic(), -SAY_EVERY_S, FIRST_PAUSE_S
    while True:
        try:
            got = await get()
        except absent as error:
            now = time.monotonic()
            if now - said_at >= SAY_EVERY_S:
                said_at = now
                log.warning("waiting", need=what, error=str(error), waited_s=round(now - began, 1))
        else:
            if said_at >= began:
                log.info("found", need=what, waited_s=round(time.monotonic() - began, 1))
            return got
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


async def needed_text(path: Path) -> str:
    """Returns the text of a file, such as a key that is put there by somebody else; waits until it is there."""
    return await needed(
        f"the file {path}", lambda: asyncio.to_thread(path.read_text, "utf-8"), absent=(FileNotFoundError,)
    )


@asynccontextmanager
async def looked_for(peer: str, channel: grpc.aio.Channel) -> AsyncIterator[grpc.aio.Channel]:
    """Connects a channel ahead of the first call, says in the log if nobody is there yet, and closes it in the end."""
    async with channel:
        looking = detached(_look_for(peer, channel))
        try:
            yield channel
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


async def _look_for(peer: str, channel: grpc.aio.Channel) -> None:
    began, said = time.monotonic(), False
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and not said:
            said = True
            log.warning("waiting", need=peer, error="nobody serves there yet", waited_s=0.0)
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    if said:
        log.info("found", need=peer, waited_s=round(time.monotonic() - began, 1))
