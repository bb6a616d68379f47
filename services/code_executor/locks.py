"""Locks between processes of one machine, held by an open file: whoever dies lets go."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_FIRST_WAIT_S = 0.005
_LONGEST_WAIT_S = 0.2


def try_lock(path: Path, *, exclusive: bool) -> int | None:
    """Takes the lock of a file at once, or returns None when another holds it; the returned descriptor frees it."""
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_same(path, descriptor):
            return descriptor
        # Removed by whoever held it before: a lock on a file that nobody else can find is none.
        os.close(descriptor)


def unlock(descriptor: int) -> None:
    """Frees a lock."""
    os.close(descriptor)


class LockTimeout(Exception):
    """Others held the lock for too long."""


@asynccontextmanager
async def locked(path: Path, *, exclusive: bool, timeout_s: float) -> AsyncIterator[None]:
    """Holds the lock of a file. Raises LockTimeout."""
    wait_s = _FIRST_WAIT_S
    give_up_at = time.monotonic() + timeout_s
    while (descriptor := try_lock(path, exclusive=exclusive)) is None:
        if time.monotonic() > give_up_at:
            raise LockTimeout(path.name)
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
    try:
        yield
    finally:
        unlock(descriptor)


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
