"""What is known of a server that is away: calls are held back, but for one now and then, until one is answered."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from services.mcp_executor.errors import ServerAway
from services.mcp_executor.metrics import AWAY

# After so many calls in a row without an answer it counts as away: first so long, then twice as long each time.
FAILURES: Final = 5
FIRST_S: Final = 0.5
LONGEST_S: Final = 10.0


class Outage:
    """Of one server: others are asked meanwhile."""

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._failures = 0
        self._held_s = 0.0
        self._until = 0.0
        self._cause = ""
        AWAY.labels(server).set(0)

    def check(self) -> None:
        """Raises ServerAway in a call's place while the server counts as away and no call is due to find out."""
        now = self._clock()
        if not self._held_s:
            return
        if now < self._until:
            raise ServerAway(
                self._server,
                f"the MCP server {self._server} is away: {self._cause}",
                retry_after_s=self._until - now,
            )
        # One that takes long does not hold up the next.
        self._until = now + self._held_s

    def answered(self) -> None:
        """Notes that the server has answered a call, whatever it said."""
        self._failures, self._held_s = 0, 0.0
        AWAY.labels(self._server).set(0)

    def failed(self, cause: str) -> None:
        """Notes a call that got no answer."""
        self._failures, self._cause = self._failures + 1, cause
        if self._failures < FAILURES:
            return
        self._held_s = min(max(self._held_s * 2, FIRST_S), LONGEST_S)
        # Pods that found it away together ask again apart.
        self._until = self._clock() + self._held_s * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load
        AWAY.labels(self._server).set(1)
