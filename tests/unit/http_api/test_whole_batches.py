"""Runs that one request makes are all there, or none goes on that its caller has not heard of."""

from __future__ import annotations

from functools import partial

import pytest
from signalbox.v1 import runs_pb2

from services.http_api.errors import ApiError, Busy, GatewayAway, TooLate
from services.http_api.whole_batches import Creation, created_whole

AWAY = GatewayAway("no gateway answers", retry_after_s=0.01)


class Gateway:
    """A gateway whose next answers are lost: what is asked happens all the same."""

    def __init__(self, *lost: ApiError | None, refuses: int = -1) -> None:
        self.lost = [*lost]
        self.refuses = refuses
        self.runs: set[str] = set()

    def creations(self, count: int) -> list[Creation]:
        """Creations of runs, each idempotent."""
        return [partial(self.create, number) for number in range(count)]

    async def create(self, number: int) -> runs_pb2.Run:
        """Makes a run, or finds it."""
        if number == self.refuses:
            raise Busy("a quota is used up")
        self.runs.add(f"r{number}")
        self._answer()
        return runs_pb2.Run(run_id=f"r{number}")

    async def cancel(self, run_id: str) -> None:
        """Ends a run."""
        self._answer()
        self.runs.discard(run_id)

    def _answer(self) -> None:
        if self.lost and (error := self.lost.pop(0)):
            raise error


async def test_a_gateway_that_dies_in_the_middle_makes_each_run_once() -> None:
    gateway = Gateway(None, AWAY, TooLate("late", retry_after_s=0.01))
    made = await created_whole(gateway.creations(3), gateway.cancel, recovery_s=5)
    assert [run.run_id for run in made] == ["r0", "r1", "r2"]
    assert gateway.runs == {"r0", "r1", "r2"}


@pytest.mark.parametrize("recovery_s", [0.0, 5.0])
async def test_a_run_whose_creation_was_not_answered_is_cancelled_with_the_others(recovery_s: float) -> None:
    gateway = Gateway(None, AWAY, refuses=2)
    with pytest.raises((GatewayAway, Busy)):
        await created_whole(gateway.creations(3), gateway.cancel, recovery_s=recovery_s)
    assert gateway.runs == set()


async def test_what_can_not_be_cancelled_is_named() -> None:
    gateway = Gateway(None, None, *[AWAY] * 3, refuses=2)
    with pytest.raises(Busy) as told:
        await created_whole(gateway.creations(3), gateway.cancel, recovery_s=0)
    assert told.value.detail.endswith("could not be cancelled, go on: r0, r1")
