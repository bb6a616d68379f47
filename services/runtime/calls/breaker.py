"""A circuit breaker: keeps the runs of a replica from hammering a dependency that is away.

Our own, since it is a screenful, and the libraries at hand count exceptions of any kind and stay half open when a probe
is cancelled, or for as long as it takes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from services.runtime.errors import DependencyAway
from services.runtime.metrics import CIRCUIT_OPEN, watch_dependency
from services.runtime.routing.waiting import found_away


@dataclass(frozen=True)
class BreakerPolicy:
    """After how many failures in a row a breaker opens, and for how long; twice as long after each failed probe.

    `first_calls` are calls at once of runs that have not found the dependency away themselves.
    """

    failures: int = 5
    open_s: float = 0.5
    longest_open_s: float = 10.0
    first_calls: int = 4


class Breaker:
    """Lets calls of one dependency pass: all while it answers; while it is away one now and then, as a probe.

    What fails may lie with the calls of some runs. So one that has not found the dependency away itself is let through:
    its first call costs no more than a probe does, a few at once, and shows whether it is away for others.
    An answer that says no is an answer, and so is one that names what stands behind it as away. Only DependencyAway of
    the dependency's own counts as a failure.
    """

    def __init__(
        self, dependency: str, policy: BreakerPolicy | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.dependency = dependency
        self._policy = policy or BreakerPolicy()
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0
        self._open_s = 0.0
        self._cause = ""
        self._first_calls = 0
        watch_dependency(dependency)

    @property
    def is_open(self) -> bool:
        """True while the dependency counts as away."""
        return self._open_s > 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Lets a call pass and learns from how it ends.

        Raises DependencyAway in the call's place while open, with the cause of the last failure.
        """
        if not self.is_open:
            with self._learning(probe=False):
                yield
        elif self._clock() >= self._open_until:
            # One that takes long, or is cancelled, does not block the next probe.
            self._open_until = self._clock() + self._open_s
            with self._learning(probe=True):
                yield
        elif self.dependency not in found_away() and self._first_calls < self._policy.first_calls:
            self._first_calls += 1
            try:
                with self._learning(probe=False):
                    yield
            finally:
                self._first_calls -= 1
        else:
            away = DependencyAway(self.dependency, self._cause)
            away.held_back = True
            raise away

    @contextmanager
    def _learning(self, *, probe: bool) -> Iterator[None]:
        try:
            yield
        except DependencyAway as away:
            found_away().add(away.dependency)
            if away.dependency == self.dependency:
                self._failed(away.cause, probe=probe)
            else:  # the dependency itself has answered
                self._answered()
            raise
        except Exception:
            self._answered()
            raise
        else:
            self._answered()

    def _failed(self, cause: str, *, probe: bool) -> None:
        self._cause = cause
        self._failures += 1
        if not probe and (self.is_open or self._failures < self._policy.failures):
            return
        self._open_s = min(max(self._open_s * 2, self._policy.open_s), self._policy.longest_open_s)
        # Replicas that opened together probe apart.
        self._open_until = self._clock() + self._open_s * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load
        CIRCUIT_OPEN.labels(self.dependency).set(1)

    def _answered(self) -> None:
        self._failures = 0
        if self.is_open:
            self._open_s = 0.0
            CIRCUIT_OPEN.labels(self.dependency).set(0)
