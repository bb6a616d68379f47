"""Runs that ask a person: the answer is taken once, and a question is in nobody's way."""

from __future__ import annotations

import asyncio

import pytest

from services.runtime.engine.events import EventStream
from services.runtime.engine.records import InputRequest, RunRecord, RunState
from services.runtime.errors import RunEnded, StaleAnswer
from tests.fixtures.replica import Counting, Replica, answer_of
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0


@pytest.fixture
def counting() -> Counting:
    """An agent that asks before it says 2."""
    made = Counting()
    made.asks = {2}
    return made


@pytest.fixture
async def replica(start_replica: StartReplica, counting: Counting) -> Replica:
    return await start_replica(counting)


async def asking(replica: Replica, run: RunRecord) -> tuple[RunRecord, InputRequest]:
    """Waits until a run asks, as a watcher does; returns it and its question."""
    async with asyncio.timeout(TIMEOUT_S):
        found = await ended(replica, run)
    assert found.state is RunState.AWAITING_INPUT
    assert found.input_request
    return found, found.input_request


async def test_a_watch_does_not_end_with_a_question_that_is_answered(
    replica: Replica, start_replica: StartReplica, counting: Counting
) -> None:
    run, _ = await replica.engine.create(new_run(until=3))
    asked, question = await asking(replica, run)
    await replica.engine.drain()
    going_on = await replica.store.answer(run.run_id, run.caller, question.input_request_id, "yes")
    assert (going_on.state, going_on.event_count) == (RunState.PENDING, asked.event_count)
    seen = []
    async with asyncio.timeout(TIMEOUT_S):
        async for event in EventStream(replica.pool).watch(going_on, 0):
            seen.append(event.kind)
            if event.sequence == asked.event_count:
                await start_replica(counting)
    assert seen[-1] == "run_ended"


async def test_a_run_goes_on_with_its_answer_at_another_replica(replica: Replica, start_replica: StartReplica) -> None:
    run, _ = await replica.engine.create(new_run(until=3))
    asked, question = await asking(replica, run)
    assert (asked.spend["model_calls"], asked.epoch) == (1, 1)
    await replica.engine.drain()
    other = await start_replica()
    other.counting.asks = {2}
    await other.engine.answer(run.run_id, run.caller, question.input_request_id, "yes")
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(other, await other.store.get(run.run_id, run.caller))
    assert (done.state, answer_of(done.output), done.epoch) == (RunState.SUCCEEDED, "1 2 3", 2)
    assert done.spend["model_calls"] == 3


async def test_of_two_answers_one_is_taken_and_its_repeat_is_no_error(replica: Replica) -> None:
    run, _ = await replica.engine.create(new_run(until=3))
    _, question = await asking(replica, run)
    replica.counting.hold(2)

    async def answer(text: str) -> RunRecord:
        return await replica.engine.answer(run.run_id, run.caller, question.input_request_id, text)

    answers = ["yes", "certainly"]
    both = await asyncio.gather(*(answer(text) for text in answers), return_exceptions=True)
    [refused] = [index for index, result in enumerate(both) if isinstance(result, StaleAnswer)]
    async with asyncio.timeout(TIMEOUT_S):
        await replica.counting.reached.wait()
    repeated = await answer(answers[1 - refused])
    assert (repeated.run_id, repeated.state) == (run.run_id, RunState.RUNNING)
    with pytest.raises(StaleAnswer):
        await answer(answers[refused])


async def test_a_run_that_is_to_be_cancelled_asks_nobody(replica: Replica, counting: Counting) -> None:
    gate = counting.hold(2)
    run, _ = await replica.engine.create(new_run(until=3))
    await asyncio.wait_for(counting.reached.wait(), TIMEOUT_S)
    await replica.engine.cancel(run.run_id, run.caller)
    gate.set()
    async with asyncio.timeout(TIMEOUT_S):
        events = [event async for event in replica.engine.watch(run, 0)]
    done = await replica.store.get(run.run_id, run.caller)
    assert (done.state, done.stop_reason, done.input_request) == (RunState.CANCELLED, "cancelled", None)
    assert [event.sequence for event in events] == list(range(1, done.event_count + 1))
    assert events[-1].kind == "run_ended"


async def test_a_question_that_nobody_answers_ends_the_run(replica: Replica, counting: Counting) -> None:
    counting.expires_in_s = 0.0
    run, _ = await replica.engine.create(new_run(until=3))
    async with asyncio.timeout(TIMEOUT_S):
        while not (found := await replica.store.get(run.run_id, run.caller)).state.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (found.state, found.stop_reason) == (RunState.NEEDS_REVIEW, "input_expired")
    with pytest.raises(StaleAnswer):
        await replica.engine.answer(run.run_id, run.caller, "any", "yes")
    with pytest.raises(RunEnded):
        await replica.engine.cancel(run.run_id, run.caller)
