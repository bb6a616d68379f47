"""The life of a run as its caller handles it: created once, watched, cancelled, listed, bounded by a budget."""

from __future__ import annotations

import asyncio
import base64
import itertools
from typing import Any
from uuid import uuid4

import grpc
import pytest
from signalbox.v1 import caller_pb2, questions_pb2, questions_pb2_grpc, runs_pb2, threads_pb2, threads_pb2_grpc

from tests.fixtures.client import RunClient, question
from tests.fixtures.ledger import check_ledger, plain
from tests.fixtures.refusals import refusal
from tests.fixtures.script import ANSWER, Script, examples, query
from tests.fixtures.scripted_model import Reply
from tests.fixtures.stack import AGENT_MODEL, Deployed

COUNT = "SELECT count(*) AS devices FROM devices"
QUESTION = "How many devices do I have?"
BLOCKED_QUESTION = "Show me the devices of user 31"
_subjects = itertools.count(500_000)


@pytest.fixture
def caller(signalbox: Deployed) -> RunClient:
    return signalbox.caller("27")


@pytest.fixture
def newcomer(signalbox: Deployed) -> RunClient:
    """A caller who has no runs yet."""
    return signalbox.caller(str(next(_subjects)))


async def events_of(stream: Any) -> list[runs_pb2.RunEvent]:
    return [event async for event in stream]


async def known(client: RunClient, run_id: str) -> runs_pb2.Run:
    """A run as its events tell of it; asked for by itself, it also has the policy that it is decided by."""
    run = await client.get(run_id)
    assert run.policy.limits
    run.ClearField("policy")
    return run


async def test_a_request_id_makes_one_run_however_often_it_is_sent(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    request = question(QUESTION, request_id=str(uuid4()))
    runs = await asyncio.gather(*(caller.create(request) for _ in range(5)))
    [run_id] = {run.run_id for run in runs}
    asked = await caller.wait(run_id)

    assert (asked.state, asked.output.answer) == ("SUCCEEDED", ANSWER)
    assert await events_of(caller.execute(request)) == asked.events  # a repeat after the end brings all of it again
    assert script.asked == ["guard", "agent", "format"]
    check_ledger(asked)


async def test_a_request_id_is_its_callers_own(signalbox: Deployed, script: Script) -> None:
    request = question(BLOCKED_QUESTION, request_id=str(uuid4()))
    first = await signalbox.caller("27").create(request)
    second = await signalbox.caller("28").create(request)

    assert first.run_id != second.run_id
    assert script.asked == []


async def test_a_stream_goes_on_after_any_event(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION)

    for seen in (0, 1, 4, len(asked.events) - 1):
        assert await events_of(caller.watch(asked.run.run_id, seen)) == asked.events[seen:]
    assert await known(caller, asked.run.run_id) == asked.run


async def test_a_watcher_sees_events_while_the_run_runs(caller: RunClient, script: Script) -> None:
    gate = asyncio.Event()
    script.agent(query(COUNT).after(gate))
    run = await caller.create(question(QUESTION))
    stream = caller.watch(run.run_id)
    seen = [await anext(stream) for _ in range(2)]

    assert [event.WhichOneof("event") for event in seen] == ["state_changed", "decision"]
    assert (await caller.get(run.run_id)).state == runs_pb2.RUN_STATE_RUNNING
    gate.set()
    asked = await caller.finish([*seen, *await events_of(stream)])
    assert asked.state == "SUCCEEDED"
    check_ledger(asked)


async def test_a_cancelled_run_is_broken_off_and_pays_for_what_it_asked(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT).after(asyncio.Event()))
    run = await caller.create(question(QUESTION))
    await script.model.wait_for_requests(1, model=AGENT_MODEL)
    await asyncio.gather(caller.cancel(run.run_id), caller.cancel(run.run_id))
    asked = await caller.wait(run.run_id)

    assert (asked.state, asked.run.stop_reason, asked.run.error) == ("CANCELLED", "cancelled", "")
    assert asked.route == ["screen_question: allowed -> agent", "agent: run_cancelled -> __end__"]
    assert script.asked == ["guard", "agent"]
    assert [name for name, outcome in asked.calls("model") if outcome == "CancelledError"] == [AGENT_MODEL]
    assert asked.calls("tool") == [("get_few_shot_examples", "ok")]  # the query was never run
    check_ledger(asked)
    again = await caller.cancel(run.run_id)
    assert again.state == runs_pb2.RUN_STATE_CANCELLED


async def test_what_has_ended_is_not_cancelled(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION)
    detail = await refusal(caller.cancel(asked.run.run_id))

    assert (detail.code, detail.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_ENDED")
    assert (await caller.get(asked.run.run_id)).state == runs_pb2.RUN_STATE_SUCCEEDED


async def test_a_run_that_asks_nothing_is_not_resumed(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION)
    request = runs_pb2.ResumeRunRequest(run_id=asked.run.run_id, input_request_id="none", answer="yes")
    detail = await refusal(caller.stub.ResumeRun(request, metadata=caller.metadata))

    assert (detail.code, detail.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STALE_ANSWER")


async def test_a_run_is_its_callers_and_the_operators(signalbox: Deployed, script: Script) -> None:
    script.agent(query(COUNT))
    asked = await signalbox.caller("27").ask(QUESTION)
    run_id = asked.run.run_id
    for stranger in (signalbox.caller("28"), signalbox.caller("28", ["admin"])):
        calls = (stranger.get(run_id), stranger.decisions(run_id), stranger.cancel(run_id))
        found = [await refusal(call) for call in (*calls, events_of(stranger.watch(run_id)))]
        assert {(detail.code, detail.reason) for detail in found} == {(grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")}
        assert run_id not in await listed(stranger)

    operator = signalbox.caller("99", ["operator"])
    assert await known(operator, run_id) == asked.run
    assert await operator.decisions(run_id) == asked.decisions
    assert run_id in await listed(operator)


async def listed(client: RunClient) -> list[str]:
    request = runs_pb2.ListRunsRequest(page_size=500)
    return [run.run_id for page in await client.run_pages(request) for run in page]


async def test_runs_are_listed_newest_first_by_pages(newcomer: RunClient, script: Script) -> None:
    made = [(await newcomer.ask(BLOCKED_QUESTION)).run.run_id for _ in range(5)]
    assert script.asked == []

    pages = await newcomer.run_pages(runs_pb2.ListRunsRequest(page_size=2))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [run.run_id for page in pages for run in page] == made[::-1]
    assert not any(run.HasField("input") or run.HasField("output") for page in pages for run in page)


async def test_runs_are_listed_by_state_agent_and_thread(newcomer: RunClient, script: Script) -> None:
    blocked = (await newcomer.ask(BLOCKED_QUESTION, thread_id="harbour:1")).run.run_id
    script.agent_always(Reply.empty())
    unanswered = (await newcomer.ask(QUESTION)).run.run_id

    async def found(**chosen: Any) -> list[str]:
        return [run.run_id for page in await newcomer.run_pages(runs_pb2.ListRunsRequest(**chosen)) for run in page]

    assert await found() == [unanswered, blocked]
    assert await found(state=runs_pb2.RUN_STATE_NEEDS_REVIEW) == [unanswered]
    assert await found(state=runs_pb2.RUN_STATE_FAILED) == []
    assert await found(thread_id="harbour:1") == [blocked]
    assert await found(agent="data_chat") == [unanswered, blocked]


async def test_decisions_are_listed_by_pages(caller: RunClient, script: Script) -> None:
    script.agent(examples("devices"), query(COUNT))
    asked = await caller.ask(QUESTION)

    pages = await caller.decision_pages(asked.run.run_id, page_size=2)
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [decision for page in pages for decision in page] == asked.decisions


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (caller_pb2.Budget(model_calls=1), "model_calls"),
        (caller_pb2.Budget(tool_calls=1), "tool_calls"),  # the examples that the prompt starts with
        (caller_pb2.Budget(tokens=60), "tokens"),
    ],
)
async def test_a_spent_budget_ends_the_run(
    caller: RunClient, script: Script, budget: caller_pb2.Budget, spent: str
) -> None:
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION, budget=budget)

    assert (asked.state, asked.run.stop_reason) == ("NEEDS_REVIEW", "budget_exhausted")
    assert "may spend was used up" in asked.output.answer
    assert asked.route == ["screen_question: allowed -> agent", "agent: budget_exhausted -> format_answer"]
    assert plain(asked.decision("budget_exhausted").grounds) == {"budget_spent": spent}
    assert script.asked == ["guard", "agent"]
    assert getattr(asked.run.budget, spent) == getattr(budget, spent)
    check_ledger(asked)


async def test_a_spent_wall_time_ends_the_run(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT).delayed(1.2))
    asked = await caller.ask(QUESTION, budget=caller_pb2.Budget(wall_time_s=1))

    assert (asked.state, asked.run.stop_reason) == ("NEEDS_REVIEW", "budget_exhausted")
    assert plain(asked.decision("budget_exhausted").grounds) == {"budget_spent": "wall_time_s"}
    assert asked.run.spend.wall_time_s >= 1
    check_ledger(asked)


async def test_a_budget_that_suffices_changes_nothing(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    asked = await caller.ask(QUESTION, budget=caller_pb2.Budget(model_calls=3, tool_calls=2, tokens=10_000))

    assert (asked.state, asked.run.stop_reason) == ("SUCCEEDED", "")
    check_ledger(asked)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "1 character"), (" \n ", "must not be blank"), ("a\x00b", "NUL"), ("x" * 4001, "4000")],
    ids=["empty", "blank", "NUL", "too long"],
)
async def test_bad_questions_are_refused_by_field(caller: RunClient, script: Script, text: str, words: str) -> None:
    detail = await refusal(caller.create(question(text)))

    assert (detail.code, detail.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert {violation.field for violation in detail.violations} == {"input.data_chat.question"}
    assert any(words in violation.description for violation in detail.violations)
    assert script.asked == []


def crafted(place: str) -> str:
    """A page token that says what no call ever said."""
    return base64.urlsafe_b64encode(place.encode()).decode()


NOW = "2026-01-01T00:00:00+00:00"
NOBODYS_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
NOBODYS_PLACES = [
    "not a token", "", NOW, f"{NOW} no-id!", f"{NOW} {NOBODYS_ID}\x00", f"2026-01-01T00:00:00 {NOBODYS_ID}",
    f"{NOW} a b", f"{NOBODYS_ID} many", f"many {NOBODYS_ID}", "-1", "9" * 30,
]  # fmt: skip


@pytest.mark.parametrize("place", NOBODYS_PLACES)
async def test_a_page_token_that_no_call_returned_is_refused(
    signalbox: Deployed, caller: RunClient, place: str
) -> None:
    token, metadata = crafted(place) or "=", caller.metadata
    questions = questions_pb2_grpc.QuestionServiceStub(signalbox.channel)
    threads = threads_pb2_grpc.ThreadServiceStub(signalbox.channel)
    for asked in (
        caller.stub.ListRuns(runs_pb2.ListRunsRequest(page_token=token), metadata=metadata),
        caller.stub.ListDecisions(
            runs_pb2.ListDecisionsRequest(agent="data_chat", page_token=token), metadata=metadata
        ),
        caller.stub.ListDecisions(
            runs_pb2.ListDecisionsRequest(run_id=str(uuid4()), page_token=token), metadata=metadata
        ),
        caller.stub.ExplainRun(runs_pb2.ExplainRunRequest(run_id=str(uuid4()), page_token=token), metadata=metadata),
        questions.ListQuestions(questions_pb2.ListQuestionsRequest(page_token=token), metadata=metadata),
        threads.ListThreads(threads_pb2.ListThreadsRequest(page_token=token), metadata=metadata),
    ):
        detail = await refusal(asked)
        assert (detail.code, detail.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"), detail
        assert [violation.field for violation in detail.violations] == ["page_token"]


async def test_without_a_token_nothing_is_done(caller: RunClient, script: Script) -> None:
    detail = await refusal(caller.stub.CreateRun(question(QUESTION)))

    assert detail.code is grpc.StatusCode.UNAUTHENTICATED
    assert script.asked == []
