"""Stopping a run at once: attempts at its nodes are broken off where they are, but for those with effects under way.

Of an effect that was broken off nobody could say whether it took place: such an attempt goes on until it has ended.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from langgraph.errors import GraphBubbleUp

from services.runtime.routing.recorder import StepRecord
from services.runtime.routing.state import Spend

# The reason that a run ends for, and the rule that the ledger shows after a node that was broken off.
CANCELLED: Final = "cancelled"
RUN_CANCELLED: Final = "run_cancelled"


class RunStopped(GraphBubbleUp):
    """Leaves the graph at the checkpoint that the node started from: the run is to stop, and the node was broken off.

    `step` is the record of that node, and `spend` what the run has spent with it, where nobody else keeps them.
    """

    def __init__(self) -> None:
        super().__init__("the run was stopped")
        self.step: StepRecord | None = None
        self.spend: Spend | None = None


class Stop:
    """Whether a claimed run is to stop, and the attempts at its nodes that are under way."""

    def __init__(self) -> None:
        self.requested = False
        self.under_way: set[AttemptLimit] = set()

    def request(self) -> None:
        """Breaks off what is under way, and all that would begin. To be called in the loop."""
        self.requested = True
        for attempt in tuple(self.under_way):
            attempt.break_off(RunStopped())


class AttemptLimit:
    """How long an attempt at a node may take: it ends as soon as its run is to stop, and nothing holds it.

    `longest_s` ends it in any case, with TimeoutError. Raises RunStopped, or what else it was broken off with, whatever
    the attempt itself raises then. An attempt that has come to its end by then has ended well.
    """

    def __init__(self, stop: Stop, longest_s: float = math.inf, *, acts: bool = False) -> None:
        """An attempt that `acts` has effects from its beginning to its end."""
        self._stop = stop
        self._limit = asyncio.timeout(None if math.isinf(longest_s) else longest_s)
        self._holds = int(acts)
        self._cause: Exception | None = None
        self._is_broken_off = False

    @property
    def expired(self) -> bool:
        """Whether the longest time was over."""
        return self._limit.expired() and not self._is_broken_off

    async def __aenter__(self) -> Self:
        if self._stop.requested:
            raise RunStopped
        await self._limit.__aenter__()
        self._stop.under_way.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.under_way.discard(self)
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as late:
            if self._is_broken_off and self._cause:
                raise self._cause from late
            raise
        if self._is_broken_off and self._cause and self._limit.expired() and isinstance(error, Exception):
            raise self._cause from error

    def break_off(self, cause: Exception) -> None:
        """Ends the attempt with an error, once nothing holds it."""
        self._cause = self._cause or cause
        if not self._holds and not self._limit.expired():
            self._is_broken_off = True
            self._limit.reschedule(asyncio.get_running_loop().time())

    def hold(self) -> None:
        """Notes that something begins whose outcome nobody would know if it was broken off."""
        self._holds += 1

    def let_go(self) -> None:
        """Notes that it has ended."""
        self._holds -= 1
        if self._cause and self in self._stop.under_way:
            self.break_off(self._cause)

    async def until_let_go(self) -> None:
        """Waits until nothing holds an attempt that is to be broken off, which it is then.

        To be called before it ends by an error: what it is refused by then, others of its calls go on beside.
        """
        if self._cause and self._holds:
            await asyncio.get_running_loop().create_future()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the attempt inside the context."""
        self.hold()
        try:
            yield
        finally:
            self.let_go()
