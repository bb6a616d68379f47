"""Listening at an address that a setting names, or saying why that can't be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CannotListen(Exception):
    """Nothing can listen at the address of a setting; the message names the setting and says why."""


@contextmanager
def listening(setting: str, address: str) -> Iterator[None]:
    """Raises CannotListen where what is within can't bind the address."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # the second is gRPC's, which writes to standard error why
        raise CannotListen(f"{setting}: can't listen at {address}: {error}") from error
