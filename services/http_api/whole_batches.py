"""Runs that one request makes: all of them, or none that goes on without its caller's knowledge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

from signalbox.v1 import runs_pb2

from services.http_api.errors import FALLBACK_RETRY_S, ApiError, GatewayAway, TooLate

T = TypeVar("T")
# Makes a run, or finds the one that it made before.
Creation: TypeAlias = Callable[[], Awaitable[runs_pb2.Run]]
# What leaves open whether a run was made.
UNHEARD: Final = (GatewayAway, TooLate)


async def created_whole(
    creations: Sequence[Creation], cancel: Callable[[str], Awaitable[None]], *, recovery_s: float
) -> list[runs_pb2.Run]:
    """Returns a run of each; where one is refused, cancels those that there are, and raises ApiError.

    A gateway that does not answer is asked again for `recovery_s`, and for as long once more to cancel. The error names
    what could not be cancelled.
    """
    made: list[runs_pb2.Run] = []
    try:
        for creation in creations:
            made.append(await answered(creation, time.monotonic() + recovery_s))  # noqa: PERF401 - one may fail
    except ApiError as error:
        until = time.monotonic() + recovery_s
        if isinstance(error, UNHEARD):
            with suppress(ApiError):  # what is refused is not there
                made.append(await answered(creations[len(made)], until))
        left = [run.run_id for run in made if not await _is_cancelled(run.run_id, cancel, until)]
        if left:
            error.detail += f"; runs that were made before that, and could not be cancelled, go on: {', '.join(left)}"
        raise
    return made


async def answered(call: Callable[[], Awaitable[T]], until: float) -> T:
    """Returns what a call that may be repeated brings; while no gateway answers, calls again until a moment."""
    while True:
        try:
            return await call()
        except UNHEARD as error:
            pause_s = error.retry_after_s or FALLBACK_RETRY_S
            if time.monotonic() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)


async def _is_cancelled(run_id: str, cancel: Callable[[str], Awaitable[None]], until: float) -> bool:
    try:
        await answered(lambda: cancel(run_id), until)
    except ApiError:
        return False
    return True
