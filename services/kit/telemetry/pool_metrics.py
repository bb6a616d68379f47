"""How full a pool of database connections is, as Prometheus finds it when it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from prometheus_client import Gauge

from services.kit.telemetry.names import METRIC_PREFIX

_PREFIX = METRIC_PREFIX + "database_"

CONNECTIONS = Gauge(_PREFIX + "connections", "Connections of a pool that are open.", ["pool"])
CONNECTIONS_IN_USE = Gauge(_PREFIX + "connections_in_use", "Connections of a pool that are in use.", ["pool"])
CONNECTIONS_MAX = Gauge(_PREFIX + "connections_max", "Connections that a pool may open.", ["pool"])
WAITING = Gauge(_PREFIX + "connection_waits", "Callers that wait for a connection of a pool now.", ["pool"])


class Pool(Protocol):
    """A psycopg pool, whose numbers any thread may read."""

    name: str

    @property
    def max_size(self) -> int:
        """Connections that it may open."""

    def get_stats(self) -> dict[str, int]:
        """Its numbers, by name; one that is missing is 0."""


@contextmanager
def shown(pool: Pool) -> Iterator[None]:
    """Shows a pool's numbers by its name, inside the context."""

    def number(name: str) -> Callable[[], float]:
        return lambda: pool.get_stats().get(name, 0)

    CONNECTIONS.labels(pool.name).set_function(number("pool_size"))
    CONNECTIONS_MAX.labels(pool.name).set_function(lambda: pool.max_size)
    CONNECTIONS_IN_USE.labels(pool.name).set_function(lambda: number("pool_size")() - number("pool_available")())
    WAITING.labels(pool.name).set_function(number("requests_waiting"))
    try:
        yield
    finally:
        for gauge in (CONNECTIONS, CONNECTIONS_MAX, CONNECTIONS_IN_USE, WAITING):
            gauge.remove(pool.name)
