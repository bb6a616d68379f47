"""Who calls agents as tools, and what becomes of their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext

Context = ServerRequestContext[Any, Any]
Metadata = tuple[tuple[str, str], ...]


class Callers(Protocol):
    """Who calls a tool, and what becomes of a run whose call ends before it."""

    def metadata(self, context: Context) -> Metadata:
        """Returns what the gateway knows the caller by."""

    def request(self, context: Context) -> tuple[str, Mapping[str, str]]:
        """Returns the id of a call, the same where it is repeated, or none; and labels for its run."""

    async def began(self, context: Context, run_id: str, sequence: int) -> None:
        """Is told which run a call follows, and how far it has come."""

    def cancels(self, context: Context) -> bool:
        """Whether a call that is given up has its run cancelled."""


@dataclass(frozen=True)
class OneCaller:
    """The caller of a process, by what the gateway knows them by at the moment."""

    of_gateway: Callable[[], Metadata] = field(repr=False)

    def metadata(self, _context: Context) -> Metadata:
        """Returns what the gateway knows the caller by."""
        return self.of_gateway()

    def request(self, _context: Context) -> tuple[str, Mapping[str, str]]:
        """Returns no id: what stands between is a pipe."""
        return "", {}

    async def began(self, _context: Context, _run_id: str, _sequence: int) -> None:
        """Does nothing: whoever listens is told all."""

    def cancels(self, _context: Context) -> bool:
        """Whether a call that is given up has its run cancelled."""
        return True
