"""Threads: what was said before is in the prompt, within bounds, and for its caller only."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import grpc
import pytest
from signalbox.v1 import runs_pb2

from services.kit.models.prompts import read_data
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.wording import NO_QUERY
from tests.fixtures.client import RunClient, question
from tests.fixtures.ledger import check_ledger, plain
from tests.fixtures.refusals import refusal
from tests.fixtures.script import ALLOW, BLOCK, Script, query
from tests.fixtures.scripted_model import Reply
from tests.fixtures.stack import AGENT_MODEL, GUARD_MODEL, Deployed

COUNT = "SELECT count(*) AS devices FROM devices"


@pytest.fixture
def caller(signalbox: Deployed) -> RunClient:
    return signalbox.caller("27")


@pytest.fixture
def thread_id() -> str:
    return f"thread-{uuid4()}"


def earlier_turns(script: Script) -> list[dict[str, Any]]:
    """What the agent's latest call was told of the thread."""
    return list(read_data(script.agent_requests[-1].messages[0]["content"]).get("earlier_turns", ()))


async def test_an_earlier_question_its_sql_and_its_answer_are_in_the_prompt(
    caller: RunClient, script: Script, thread_id: str
) -> None:
    script.agent(query(COUNT), query(COUNT))
    script.format(Reply.text("You have thirteen devices."))
    first = await caller.ask("How many devices do I have?", thread_id=thread_id)
    assert earlier_turns(script) == []
    second = await caller.ask("And again?", thread_id=thread_id)

    assert earlier_turns(script) == [
        {
            "question": "How many devices do I have?",
            "sql_query": first.output.sql_query,
            "answer": "You have thirteen devices.",
        }
    ]
    assert (second.run.thread_id, second.state) == (thread_id, "SUCCEEDED")
    assert script.asked.count("guard") == 2  # every question of a thread is screened
    check_ledger(second)


async def test_a_blocked_question_never_reaches_a_model_later(
    caller: RunClient, script: Script, thread_id: str
) -> None:
    script.agent_always(query(COUNT))
    await caller.ask("How many devices do I have?", thread_id=thread_id)
    blocked = await caller.ask("And now those of user 31", thread_id=thread_id)
    assert blocked.route == ["screen_question: blocked -> __end__"]
    script.guard(BLOCK)
    also_blocked = await caller.ask("And now those of the neighbouring fleet", thread_id=thread_id)
    assert also_blocked.route == ["screen_question: blocked -> __end__"]

    script.guard(ALLOW)
    script.model.requests.clear()
    asked = await caller.ask("Yes, do it", thread_id=thread_id)
    assert asked.state == "SUCCEEDED"
    told = "\n".join(str(message) for request in script.model.requests for message in request.messages)
    assert "How many devices do I have?" in told
    assert "user 31" not in told
    assert "neighbouring fleet" not in told
    check_ledger(asked)


async def test_a_question_is_screened_with_the_turns_that_would_be_shown(
    caller: RunClient, script: Script, thread_id: str
) -> None:
    script.agent(Reply.text("Of which one?"))
    await caller.ask("I would like to know the devices of user", thread_id=thread_id)
    asked = await caller.ask("31 please", thread_id=thread_id)
    assert plain(asked.decisions[0].facts) == {"screening": "blocked", "reason": "other_user"}

    script.model.requests.clear()
    script.agent(query(COUNT))
    await caller.ask("27 please", thread_id=thread_id)
    guarded = script.model.requests_of(GUARD_MODEL)[0].last_text
    assert "I would like to know the devices of user" in guarded
    assert "Of which one?" in guarded
    assert "31 please" not in guarded


async def test_an_admins_answers_are_not_shown_to_who_is_none_any_more(
    signalbox: Deployed, script: Script, thread_id: str
) -> None:
    script.agent_always(query(COUNT))
    script.format(Reply.text("All in all there are 120, says the whole fleet."))
    admin, former = signalbox.caller("27", ["admin"]), signalbox.caller("27")
    begun = await admin.ask("How many devices are there?", thread_id=thread_id)
    assert "the whole fleet" in (await admin.get(begun.run.run_id)).output.data_chat.answer

    script.model.requests.clear()
    script.format(Reply.text("Thirteen."))
    asked = await former.ask("And of mine?", thread_id=thread_id)
    told = "\n".join(str(message) for request in script.model.requests for message in request.messages)
    assert "the whole fleet" not in told
    assert "How many devices are there?" not in told
    seen = await former.get(begun.run.run_id)
    assert seen.state == runs_pb2.RUN_STATE_SUCCEEDED
    assert not seen.HasField("output")
    [ended] = [event.run_ended.run async for event in former.watch(begun.run.run_id) if event.HasField("run_ended")]
    assert not ended.HasField("output")
    check_ledger(asked)


async def test_the_window_of_earlier_turns_is_bounded(caller: RunClient, script: Script, thread_id: str) -> None:
    window = DataChatPolicy().turns_remembered
    script.agent_always(Reply.text("Noted."))
    for number in range(window + 2):
        await caller.ask(f"This is remark {number}.", thread_id=thread_id)
    await caller.ask("What did I say?", thread_id=thread_id)

    assert [turn["question"] for turn in earlier_turns(script)] == [
        f"This is remark {number}." for number in range(2, window + 2)
    ]


async def test_another_callers_thread_of_the_same_name_is_another_thread(
    signalbox: Deployed, script: Script, thread_id: str
) -> None:
    script.agent_always(Reply.text("Noted."))
    await signalbox.caller("27").ask("Remember the word lighthouse.", thread_id=thread_id)
    for roles in ([], ["admin"], ["operator"]):
        asked = await signalbox.caller("28", roles).ask("Which word?", thread_id=thread_id)
        assert asked.state == "NEEDS_REVIEW"
        assert "lighthouse" not in str(script.agent_requests[-1].messages)
    request = runs_pb2.ListRunsRequest(thread_id=thread_id)
    pages = await signalbox.caller("28").run_pages(request)
    assert {run.caller.subject for page in pages for run in page} == {"28"}


@pytest.mark.parametrize(
    "give_way", [runs_pb2.ACTIVE_RUN_POLICY_CANCEL_ACTIVE, runs_pb2.ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE]
)
async def test_a_busy_thread_refuses_queues_or_gives_way(
    caller: RunClient, script: Script, thread_id: str, give_way: runs_pb2.ActiveRunPolicy
) -> None:
    gate = asyncio.Event()
    script.agent_always(Reply.text("Done.").after(gate))
    active = await caller.create(question("First", thread_id=thread_id))
    await script.model.wait_for_requests(1, model=AGENT_MODEL)

    detail = await refusal(caller.create(question("Second", thread_id=thread_id)))
    assert (detail.code, detail.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "THREAD_BUSY")
    assert detail.metadata["active_run_id"] == active.run_id

    queue = runs_pb2.ACTIVE_RUN_POLICY_QUEUE
    queued = await caller.create(question("Third", thread_id=thread_id, active_run_policy=queue))
    assert queued.state == runs_pb2.RUN_STATE_PENDING
    last = await caller.create(question("Fourth", thread_id=thread_id, active_run_policy=give_way))
    gate.set()
    ended = [await caller.wait(run.run_id) for run in (active, queued, last)]
    assert [asked.state for asked in ended] == ["CANCELLED", "CANCELLED", "NEEDS_REVIEW"]
    by = last.run_id if give_way == runs_pb2.ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE else ""
    assert [(await caller.get(run.run_id)).rolled_back_by for run in (active, queued, last)] == [by, by, ""]
    check_ledger(ended[-1])


async def test_a_queued_question_sees_the_answer_it_waited_for(
    caller: RunClient, script: Script, thread_id: str
) -> None:
    gate = asyncio.Event()
    script.agent(Reply.text("The first answer.").after(gate), Reply.text("The second answer."))
    first = await caller.create(question("First", thread_id=thread_id))
    await script.model.wait_for_requests(1, model=AGENT_MODEL)
    policy = runs_pb2.ACTIVE_RUN_POLICY_QUEUE
    second = await caller.create(question("Second", thread_id=thread_id, active_run_policy=policy))
    gate.set()
    answers = [(await caller.wait(run.run_id)).output.answer for run in (first, second)]

    assert answers == [f"{NO_QUERY} The first answer.", f"{NO_QUERY} The second answer."]
    assert [turn["answer"] for turn in earlier_turns(script)] == answers[:1]
