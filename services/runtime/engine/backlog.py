"""What waits in the platform database, counted now and then: runs for a replica, or for what is away, and questions."""

from __future__ import annotations

from services.runtime.engine.admission import Admission
from services.runtime.engine.upkeep import Upkeep
from services.runtime.metrics import QUESTIONS_OLDEST, QUESTIONS_WAITING, RUNS_WAITING


class Backlog:
    """Counts for admission and for metrics. What was counted once and is gone is told as 0."""

    def __init__(self, admission: Admission, upkeep: Upkeep) -> None:
        self._admission = admission
        self._upkeep = upkeep
        self._waited_for: set[str] = set()
        self._asking: set[str] = set()

    async def count(self) -> None:
        """Counts everything; that may be much. Raises DatabaseAway."""
        await self._admission.count()
        waiting = await self._upkeep.waiting()
        self._waited_for |= waiting.keys()
        for dependency in self._waited_for:
            RUNS_WAITING.labels(dependency).set(waiting.get(dependency, 0))
        questions = await self._upkeep.questions()
        self._asking |= questions.keys()
        for agent in self._asking:
            count, oldest_s = questions.get(agent, (0, 0.0))
            QUESTIONS_WAITING.labels(agent).set(count)
            QUESTIONS_OLDEST.labels(agent).set(oldest_s)
