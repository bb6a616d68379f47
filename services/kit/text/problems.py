"""What is wrong with data, in words for whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import ValidationError


class Problem(NamedTuple):
    """A part of some data, as dotted names and numbers, and what is wrong with it; the place of the whole is empty."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" if self.place else self.what


def dotted(location: Iterable[str | int]) -> str:
    """Returns a place in nested data as `tables.devices.columns.0`."""
    return ".".join(map(str, location))


def problems_of(error: ValidationError) -> list[Problem]:
    """Returns everything that a model found wrong, in its order; nothing of the data itself is repeated."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [Problem(dotted(each["loc"]), each["msg"]) for each in found]
