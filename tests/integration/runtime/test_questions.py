"""Runs that ask a person: the answer is taken once, and a question is in nobody's way."""

from __future__ import annotations

import asyncio
import time

import pytest
from prometheus_client import REGISTRY

from services.runtime.engine.questions import Answer, QuestionState
from services.runtime.engine.records import InputRequest, RunRecord, RunState
from services.runtime.errors import QuestionAnswered, QuestionExpired, RunEnded
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


def last_sweep() -> float:
    """When a replica of this process has last looked after all runs."""
    name = "signalbox_background_last_success_timestamp_seconds"
    return REGISTRY.get_sample_value(name, {"work": "sweep"}) or 0.0


async def asking(replica: Replica, run: RunRecord) -> tuple[RunRecord, InputRequest]:
    """Waits until a run asks, as a watcher does; returns it and its question."""
    async with asyncio.timeout(TIMEOUT_S):
        found = await ended(replica, run)
    assert found.state is RunState.AWAITING_INPUT
    assert found.input_request
    return found, found.input_request


async def answer(replica: Replica, run: RunRecord, question: InputRequest, text: str) -> None:
    """Answers as the run's own caller."""
    await replica.engine.answer(run.caller, Answer(run.run_id, question.input_request_id, text))


async def test_a_watch_does_not_end_with_a_question_that_is_answered(
    replica: Replica, start_replica: StartReplica, counting: Counting
) -> None:
    run, _ = await replica.engine.create(new_run(until=3))
    asked, question = await asking(replica, run)
    await replica.engine.drain()
    await answer(replica, run, question, "yes")
    going_on = await replica.store.get(run.run_id, run.caller)
    assert (going_on.state, going_on.event_count) == (RunState.PENDING, asked.event_count + 1)
    watcher = await start_replica(max_concurrent_runs=0)
    seen = []
    async with asyncio.timeout(TIMEOUT_S):
        async for event in watcher.engine.watch(going_on, 0):
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
    await answer(other, run, question, "yes")
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(other, await other.store.get(run.run_id, run.caller))
    assert (done.state, answer_of(done.output), done.epoch) == (RunState.SUCCEEDED, "1 2 3", 2)
    assert done.spend["model_calls"] == 3


async def test_of_two_answers_one_is_taken_and_its_repeat_is_no_error(replica: Replica) -> None:
    run, _ = await replica.engine.create(new_run(until=3))
    _, question = await asking(replica, run)
    replica.counting.hold(2)

    answers = ["yes", "certainly"]
    both = await asyncio.gather(*(answer(replica, run, question, text) for text in answers), return_exceptions=True)
    [refused] = [index for index, result in enumerate(both) if isinstance(result, QuestionAnswered)]
    async with asyncio.timeout(TIMEOUT_S):
        await replica.counting.reached.wait()
    await answer(replica, run, question, answers[1 - refused])
    with pytest.raises(QuestionAnswered):
        await answer(replica, run, question, answers[refused])


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
    closed = await replica.questions.get(run.caller, run.run_id)
    assert closed.state is QuestionState.EXPIRED
    with pytest.raises(QuestionExpired):
        await replica.engine.answer(run.caller, Answer(run.run_id, closed.input_request_id, "yes"))
    with pytest.raises(RunEnded):
        await replica.engine.cancel(run.run_id, run.caller)


async def test_a_graph_that_says_so_decides_what_no_answer_means(replica: Replica, counting: Counting) -> None:
    counting.decides_on_expiry, counting.expires_in_s = True, 0.0
    run, _ = await replica.engine.create(new_run(until=3))
    async with asyncio.timeout(TIMEOUT_S):
        while not (found := await replica.store.get(run.run_id, run.caller)).state.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (found.state, answer_of(found.output), counting.answers) == (RunState.SUCCEEDED, "1 2 3", ["expired"])


async def test_a_question_can_take_any_text_besides_its_options(replica: Replica, counting: Counting) -> None:
    counting.decides_on_expiry = True
    run, _ = await replica.engine.create(new_run(until=3))
    _, question = await asking(replica, run)
    assert (question.options, question.any_text) == (("yes",), True)
    await answer(replica, run, question, "by all means")
    async with asyncio.timeout(TIMEOUT_S):
        done = await ended(replica, await replica.store.get(run.run_id, run.caller))
    assert (done.state, counting.answers) == (RunState.SUCCEEDED, ["by all means"])


async def test_an_answer_that_comes_too_late_is_refused_by_the_statement_that_would_take_it(
    start_replica: StartReplica, counting: Counting
) -> None:
    began = time.time()
    replica = await start_replica(counting, sweep_interval_s=3600.0)
    async with asyncio.timeout(TIMEOUT_S):
        while last_sweep() < began:  # noqa: ASYNC110 - it looks for expired questions once, before there are any
            await asyncio.sleep(0.01)
    run, _ = await replica.engine.create(new_run(until=3))
    found, question = await asking(replica, run)
    async with replica.pool.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET expires_at = now() - interval '1 second' WHERE run_id = %s", [run.run_id]
        )
    with pytest.raises(QuestionExpired):
        await answer(replica, run, question, "yes")
    after = await replica.store.get(run.run_id, run.caller)
    assert (after.state, after.answer, after.event_count) == (RunState.AWAITING_INPUT, None, found.event_count)


async def test_a_watch_behind_the_question_of_a_run_that_waits_ends_at_once(replica: Replica) -> None:
    """A stream that was cut right after the question goes on there, and would last until somebody answers."""
    run, _ = await replica.engine.create(new_run(until=3))
    asked, _ = await asking(replica, run)
    async with asyncio.timeout(TIMEOUT_S):
        for after in (asked.event_count, 2**63 - 1):
            assert [event async for event in replica.engine.watch(asked, after)] == []
        [question] = [event async for event in replica.engine.watch(asked, asked.event_count - 1)]
    assert question.is_last


async def test_each_event_tells_of_the_question_that_was_asked_then(start_replica: StartReplica) -> None:
    counting = Counting()
    counting.asks = {2, 3}
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=4))
    questions = []
    for _ in counting.asks:
        asked, question = await asking(replica, run)
        questions.append(question)
        await answer(replica, asked, question, "yes")
        run = await replica.store.get(run.run_id, run.caller)
    over = await asyncio.wait_for(ended(replica, run), TIMEOUT_S)
    assert over.state is RunState.SUCCEEDED
    told = [event.question(over) async for event in replica.engine.watch(over, 0)]
    assert [question for question in told if question] == questions
