"""What makes a run the only one of its caller's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunKey:
    """A name that a caller gives what is asked, such as an incident's id: one run of an agent for each name.

    `digest` is of what is asked; with `again` a run that has failed or was blocked gives way to a new one.
    """

    name: str
    digest: str
    again: bool = False
