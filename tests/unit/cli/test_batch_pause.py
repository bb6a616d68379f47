"""A batch asks for no new runs while one of its own waits for something that is away."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from signalbox.v1 import runs_pb2, sast_pb2

from services.cli.investigation import investigation_input
from services.findings.investigation.batch import Batch, BatchPolicy
from services.findings.sarif.outcome import Outcome

TIMEOUT_S = 60.0
WAITS = runs_pb2.RunEvent(
    state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_PENDING, waiting_for="evaluator", cause="UNAVAILABLE")
)
CLAIMED = runs_pb2.RunEvent(state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING))
STEP = runs_pb2.RunEvent(node_completed=runs_pb2.NodeCompleted(node="analysis"))
ENDED = runs_pb2.RunEvent(run_ended=runs_pb2.RunEnded(run=runs_pb2.Run(state=runs_pb2.RUN_STATE_SUCCEEDED)))


class Platform:
    """Creates runs, and tells of them what a test wants."""

    def __init__(self) -> None:
        self.created = 0
        self.told: dict[str, asyncio.Queue[runs_pb2.RunEvent]] = defaultdict(asyncio.Queue)
        self._changed = asyncio.Condition()

    async def create(self, request: runs_pb2.CreateRunRequest) -> runs_pb2.Run:
        async with self._changed:
            self.created += 1
            self._changed.notify_all()
        fingerprint = request.input.sast_investigation.finding.fingerprint
        return runs_pb2.Run(run_id=fingerprint, state=runs_pb2.RUN_STATE_PENDING)

    async def watch(
        self, run_id: str, after_sequence: int, *, timeout_s: float | None
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        del timeout_s
        for sequence in range(after_sequence + 1, 1000):
            event = runs_pb2.RunEvent(sequence=sequence, run_id=run_id)
            event.MergeFrom(await self.told[run_id].get())
            yield event

    async def cancel(self, run_id: str) -> runs_pb2.Run:
        raise NotImplementedError(run_id)

    def tell(self, run_id: str, *events: runs_pb2.RunEvent) -> None:
        for event in events:
            self.told[run_id].put_nowait(event)

    async def created_by_then(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(lambda: self.created >= count)


class Said:
    """A progress that can be waited for."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.finished: asyncio.Queue[str] = asyncio.Queue()

    def started(self, finding: sast_pb2.Finding) -> None:
        """Nothing to remember."""

    def done(self, finding: sast_pb2.Finding, outcome: Outcome) -> None:
        assert not outcome.error
        self.finished.put_nowait(finding.fingerprint)

    def say(self, message: str) -> None:
        self.messages.put_nowait(message)


async def test_it_pauses_and_goes_on() -> None:
    platform, said = Platform(), Said()
    source = sast_pb2.CodeSource(repository="/srv/repo", commit="a" * 40)
    findings = [sast_pb2.Finding(fingerprint=str(number)) for number in range(4)]
    batch = Batch(platform, source, BatchPolicy(concurrency=2), said, investigation_input)
    running = asyncio.create_task(batch.run(findings))
    async with asyncio.timeout(TIMEOUT_S):
        await platform.created_by_then(2)
        platform.tell("0", WAITS)
        assert await said.messages.get() == "paused: the evaluator is away; the platform waits for it"
        platform.tell("1", ENDED)
        assert await said.finished.get() == "1"
        platform.tell("0", CLAIMED, WAITS)  # tried again, in vain
        while not platform.told["0"].empty():  # noqa: ASYNC110 - the batch reads it
            await asyncio.sleep(0)
        assert platform.created == 2
        platform.tell("0", CLAIMED, STEP)
        assert await said.messages.get() == "going on"
        await platform.created_by_then(3)
        for number in ("0", "2", "3"):
            platform.tell(number, ENDED)
        outcomes = await running
    assert outcomes.keys() == {"0", "1", "2", "3"}
    assert said.messages.empty()


async def test_a_run_that_ends_while_it_waits_keeps_none_waiting() -> None:
    platform, said = Platform(), Said()
    source = sast_pb2.CodeSource(repository="/srv/repo", commit="a" * 40)
    findings = [sast_pb2.Finding(fingerprint=str(number)) for number in range(2)]
    running = asyncio.create_task(
        Batch(platform, source, BatchPolicy(concurrency=1), said, investigation_input).run(findings)
    )
    platform.tell("0", WAITS, ENDED)
    platform.tell("1", ENDED)
    async with asyncio.timeout(TIMEOUT_S):
        assert (await running).keys() == {"0", "1"}
