"""Whether a replica takes more work: what is more than can wait is refused before what is under way suffers."""

from __future__ import annotations

from services.kit.telemetry.logs import get_logger
from services.runtime.engine.database import Pools
from services.runtime.engine.offers import AWAY_S
from services.runtime.engine.queries import query
from services.runtime.errors import Overloaded
from services.runtime.metrics import CALLS_SHED, RUNS_PENDING, RUNS_PENDING_OLDEST, RUNS_WAITING_FOR_POOL
from services.runtime.settings import RUNTIME

log = get_logger()
CALLS, RUNS = "calls", "runs"
RETRY_CALL_AFTER_S = 1.0
RETRY_RUN_AFTER_S = 5.0
# Where there is no bound, what is counted has one.
MOST_COUNTED = 50_000
MOST_LOOKED_AT = 1000


class Admission:
    """Knows how many calls wait for the database here, and how many runs wait for a replica. A bound of 0 is none."""

    def __init__(self, pools: Pools, *, most_calls: int = 0, most_runs: int = 0) -> None:
        self._connections = pools
        self._most_calls = most_calls
        self._most_runs = most_runs
        self._pending = 0
        self._pools = {RUNTIME}

    def check_call(self) -> None:
        """Raises Overloaded when as many calls as may wait do so already."""
        if 0 < self._most_calls <= self._connections.calls.waiting_count:
            CALLS_SHED.labels(CALLS).inc()
            raise Overloaded(f"{self._most_calls} calls wait here already; try again", retry_after_s=RETRY_CALL_AFTER_S)

    def check_run(self) -> None:
        """Raises Overloaded when as many runs as may wait did so when they were last counted."""
        if 0 < self._most_runs <= self._pending:
            CALLS_SHED.labels(RUNS).inc()
            raise Overloaded(
                f"{self._most_runs} runs wait already; try again when some have begun", retry_after_s=RETRY_RUN_AFTER_S
            )

    async def count(self) -> None:
        """Counts the runs that wait, as far as the bound, and how long the first of each pool has.

        Raises DatabaseAway.
        """
        given = {"runtime": RUNTIME, "away_s": AWAY_S}
        async with self._connections.upkeep.connection() as connection:
            most = self._most_runs or MOST_COUNTED
            cursor = await connection.execute(query("count_pending"), {**given, "most": most})
            counted = {pool: (count, is_away) for pool, is_away, count in await cursor.fetchall()}
            cursor = await connection.execute(query("oldest_pending"), {**given, "most": MOST_LOOKED_AT})
            oldest_s = dict(await cursor.fetchall())
        self._pending = sum(count for count, _ in counted.values())
        self._pools |= counted.keys() | oldest_s.keys()
        for pool in self._pools:
            count, is_away = counted.get(pool, (0, False))
            RUNS_PENDING.labels(pool).set(count)
            RUNS_PENDING_OLDEST.labels(pool).set(oldest_s.get(pool, 0.0))
            RUNS_WAITING_FOR_POOL.labels(pool).set(count if is_away else 0)
