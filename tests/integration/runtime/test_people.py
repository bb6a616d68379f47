"""QuestionService: who may see and answer what a run asks, and that exactly one answer is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from signalbox.v1 import questions_pb2, questions_pb2_grpc, runs_pb2

from services.kit.identity.caller import Caller
from services.kit.wire.server import Registration
from services.runtime.api.question_servicer import QuestionServicer
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.questions import Answer
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.retention import Pruner, RetainedData
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.serde import make_serde
from services.runtime.engine.threads import ThreadStore
from services.runtime.errors import ThreadBusy, TooManyRunsWaiting
from services.runtime.routing.asking import Answerers, Subject
from tests.fixtures.refusals import refusal
from tests.fixtures.replica import Counting, Replica, answer_of, gateway_word, serving
from tests.integration.runtime.conftest import StartReplica, ended, new_run

TIMEOUT_S = 60.0
CHANGE = {"nodes": [{"node": {"label": "Ticket", "key": "T-1"}, "kind": "CHANGE_KIND_DELETED"}]}
ANN, APPROVER, OTHER = ("ann",), ("bob", "approver"), ("eve", "reader")


@pytest.fixture
def counting() -> Counting:
    """An agent that asks an approver before it says 2, about a plan."""
    made = Counting()
    made.asks, made.decides_on_expiry = {2}, True
    made.answerers = Answerers(for_caller=False, roles=("approver",))
    made.subject = Subject("plan-1", {"graph_change_set": CHANGE})
    return made


@dataclass
class Desk:
    """A replica, and its questions over gRPC."""

    replica: Replica
    stub: Any

    async def asking(self, *roles: str, thread_id: str | None = None) -> tuple[RunRecord, questions_pb2.Question]:
        """A run of Ann's that asks, and its question as an operator sees it."""
        new = new_run(until=3, caller=Caller("ann", frozenset(roles)), thread_id=thread_id)
        run, _ = await self.replica.engine.create(new)
        async with asyncio.timeout(TIMEOUT_S):
            found = await ended(self.replica, run)
        assert found.state is RunState.AWAITING_INPUT
        return found, await self.seen(run, "olga", "operator")

    async def seen(self, run: RunRecord, *who: str) -> questions_pb2.Question:
        """The question of a run, as somebody sees it."""
        request = questions_pb2.GetQuestionRequest(run_id=run.run_id)
        response: questions_pb2.GetQuestionResponse = await self.stub.GetQuestion(request, metadata=gateway_word(*who))
        return response.question

    async def listed(self, *who: str, **request: Any) -> list[questions_pb2.Question]:
        """What somebody finds to answer, page by page."""
        found, token = [], ""
        while True:
            asked = questions_pb2.ListQuestionsRequest(page_token=token, **request)
            page = await self.stub.ListQuestions(asked, metadata=gateway_word(*who))
            found += page.questions
            token = page.next_page_token
            if not token:
                return found

    def answer(self, asked: questions_pb2.Question, text: str, *who: str, **changes: Any) -> Any:
        """Answers a question."""
        request = questions_pb2.AnswerQuestionRequest(
            run_id=asked.run_id,
            input_request_id=asked.input_request.input_request_id,
            plan_hash=asked.plan_hash,
            answer=text,
        )
        request.MergeFrom(questions_pb2.AnswerQuestionRequest(**changes))
        return self.stub.AnswerQuestion(request, metadata=gateway_word(*who))

    def assign(self, asked: questions_pb2.Question, assignee: str, *who: str) -> Any:
        """Names who may answer besides."""
        request = questions_pb2.AssignQuestionRequest(
            run_id=asked.run_id, input_request_id=asked.input_request.input_request_id, assignee=assignee
        )
        return self.stub.AssignQuestion(request, metadata=gateway_word(*who))

    async def done(self, run: RunRecord) -> RunRecord:
        """The run once it has ended."""
        async with asyncio.timeout(TIMEOUT_S):
            while not (found := await ended(self.replica, run)).state.ended:  # noqa: ASYNC110
                await asyncio.sleep(0)
        return found

    async def rows(self, statement: str, run: RunRecord) -> list[tuple[Any, ...]]:
        """What the database has of a run."""
        async with self.replica.pool.connection() as connection:
            cursor = await connection.execute(statement, [run.run_id])
            found: list[tuple[Any, ...]] = await cursor.fetchall()
            return found


@pytest.fixture
async def desk(start_replica: StartReplica, counting: Counting) -> AsyncIterator[Desk]:
    replica = await start_replica(counting)

    def registration(callers: Any) -> Registration:
        servicer = QuestionServicer(callers, replica.engine, replica.questions)
        return Registration(
            questions_pb2_grpc.add_QuestionServiceServicer_to_server, servicer, "signalbox.v1.QuestionService"
        )

    async with serving(registration) as channel:
        yield Desk(replica, questions_pb2_grpc.QuestionServiceStub(channel))


async def test_another_caller_with_the_role_answers_and_sees_what_that_takes(desk: Desk) -> None:
    run, asked = await desk.asking()
    seen = await desk.seen(run, *APPROVER)
    assert seen.right == runs_pb2.ANSWER_RIGHT_ROLE
    assert (seen.input_request.question, list(seen.input_request.options)) == ("Go on?", ["yes"])
    assert (seen.agent, seen.subject, seen.plan_hash, list(seen.roles)) == ("counting", "ann", "plan-1", ["approver"])
    assert [node.node.key for node in seen.graph_change_set.nodes] == ["T-1"]
    assert [each.run_id for each in await desk.listed(*APPROVER, answerable=True)] == [run.run_id]

    answered = (await desk.answer(asked, "yes", *APPROVER)).question
    assert answered.state == questions_pb2.QUESTION_STATE_ANSWERED
    given = answered.answer
    assert (given.answer, given.subject, given.right, given.role) == (
        "yes", "bob", runs_pb2.ANSWER_RIGHT_ROLE, "approver",
    )  # fmt: skip
    done = await desk.done(run)
    assert (done.state, answer_of(done.output), desk.replica.counting.answers) == (
        RunState.SUCCEEDED, "1 2 3", ["yes"],
    )  # fmt: skip
    assert not await desk.listed(*APPROVER)
    # Nothing that ran before the pause has run again.
    assert [number for _, number in desk.replica.counting.counted] == [1, 2, 3]


async def test_an_answer_is_an_event_and_a_row_of_the_ledger_that_say_who_and_by_which_right(desk: Desk) -> None:
    run, asked = await desk.asking()
    await desk.answer(asked, "yes", *APPROVER)
    await desk.done(run)
    events = await desk.rows("SELECT payload FROM platform.run_events WHERE run_id = %s ORDER BY sequence", run)
    [received] = [payload["input_received"] for (payload,) in events if payload and "input_received" in payload]
    assert received == {
        "input_request_id": asked.input_request.input_request_id, "subject": "bob", "right": "role", "role": "approver",
    }  # fmt: skip
    ledger = await desk.rows("SELECT calls FROM platform.decisions WHERE run_id = %s ORDER BY sequence", run)
    people = [[call for call in calls if call["kind"] == "person"] for (calls,) in ledger]
    assert [[(call["name"], call["outcome"]) for call in calls] for calls in people] == [
        [], [("bob", "role approver")], [],
    ]  # fmt: skip
    # The time that a person takes is not the run's.
    assert people[1][0]["elapsed_ms"] == 0


async def test_nobody_else_finds_it_and_its_own_caller_may_only_look(desk: Desk) -> None:
    run, asked = await desk.asking()
    for call in (
        desk.stub.GetQuestion(questions_pb2.GetQuestionRequest(run_id=run.run_id), metadata=gateway_word(*OTHER)),
        desk.answer(asked, "yes", *OTHER),
        desk.assign(asked, "eve", *OTHER),
    ):
        assert (await refusal(call)).reason == "QUESTION_NOT_FOUND"
    assert not await desk.listed(*OTHER)

    assert (await desk.seen(run, *ANN)).right == runs_pb2.ANSWER_RIGHT_UNSPECIFIED
    assert [each.run_id for each in await desk.listed(*ANN)] == [run.run_id]
    assert not await desk.listed(*ANN, answerable=True)
    for call in (desk.answer(asked, "yes", *ANN), desk.assign(asked, "ann", *ANN)):
        detail = await refusal(call)
        assert (detail.code, detail.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ANSWER_NOT_ALLOWED")
    assert (await desk.seen(run, *APPROVER)).state == questions_pb2.QUESTION_STATE_OPEN


async def test_whoever_has_lost_the_role_is_refused_also_for_an_answer_they_gave(desk: Desk) -> None:
    run, asked = await desk.asking()
    await desk.seen(run, *APPROVER)
    for roles in ([], ["reader"], ["approvers"]):
        assert (await refusal(desk.answer(asked, "yes", "bob", *roles))).reason == "QUESTION_NOT_FOUND"
    await desk.answer(asked, "yes", *APPROVER)
    await desk.answer(asked, "yes", *APPROVER)
    assert (await refusal(desk.answer(asked, "yes", "bob", "reader"))).reason == "QUESTION_NOT_FOUND"


async def test_a_caller_who_lost_a_role_of_the_run_does_not_answer_for_it(desk: Desk, counting: Counting) -> None:
    counting.answerers = Answerers()
    run, asked = await desk.asking("graph_writer")
    assert (await refusal(desk.answer(asked, "yes", *ANN))).reason == "ROLES_LOST"
    hidden = desk.stub.GetQuestion(questions_pb2.GetQuestionRequest(run_id=run.run_id), metadata=gateway_word(*ANN))
    assert (await refusal(hidden)).reason == "QUESTION_NOT_FOUND"
    answered = (await desk.answer(asked, "yes", "ann", "graph_writer")).question
    assert answered.answer.right == runs_pb2.ANSWER_RIGHT_CALLER


async def test_a_question_may_be_handed_to_a_person_by_name(desk: Desk) -> None:
    _, asked = await desk.asking()
    named = (await desk.assign(asked, "carl", *APPROVER)).question
    assert named.assignee == "carl"
    [found] = await desk.listed("carl", answerable=True)
    assert found.right == runs_pb2.ANSWER_RIGHT_ASSIGNEE
    # Who was only named names no other.
    assert (await refusal(desk.assign(asked, "eve", "carl"))).reason == "ANSWER_NOT_ALLOWED"
    await desk.assign(asked, "", *APPROVER)
    assert (await refusal(desk.answer(asked, "yes", "carl"))).reason == "QUESTION_NOT_FOUND"
    await desk.assign(asked, "carl", "olga", "operator")
    answered = (await desk.answer(asked, "yes", "carl")).question
    assert (answered.answer.subject, answered.answer.right) == ("carl", runs_pb2.ANSWER_RIGHT_ASSIGNEE)
    assert (await refusal(desk.assign(asked, "eve", *APPROVER))).reason == "QUESTION_ANSWERED"


async def test_answers_are_refused_each_with_its_reason(desk: Desk, counting: Counting) -> None:
    run, asked = await desk.asking()
    moved = await refusal(desk.answer(asked, "yes", *APPROVER, plan_hash="plan-2"))
    assert (moved.code, moved.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "PLAN_MOVED")
    unknown = desk.answer(asked, "yes", *APPROVER, input_request_id="another")
    assert (await refusal(unknown)).reason == "QUESTION_NOT_FOUND"
    await desk.answer(asked, "by all means", *APPROVER)
    assert (await refusal(desk.answer(asked, "yes", *APPROVER))).reason == "QUESTION_ANSWERED"
    assert (await refusal(desk.answer(asked, "by all means", "dora", "approver"))).reason == "QUESTION_ANSWERED"
    assert (await desk.done(run)).state is RunState.SUCCEEDED
    assert counting.answers == ["by all means"]

    # One whose options are all there is.
    counting.decides_on_expiry = False
    _, plain = await desk.asking()
    unfit = await refusal(desk.answer(plain, "maybe", *ANN))
    assert (unfit.code, unfit.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ANSWER")


async def test_a_question_of_a_run_that_was_cancelled_is_withdrawn(desk: Desk) -> None:
    run, asked = await desk.asking()
    await desk.replica.engine.cancel(run.run_id, run.caller)
    assert (await desk.seen(run, *APPROVER)).state == questions_pb2.QUESTION_STATE_WITHDRAWN
    assert (await refusal(desk.answer(asked, "yes", *APPROVER))).reason == "STALE_ANSWER"
    assert not await desk.listed("olga", "operator")


async def test_of_many_answers_at_once_exactly_one_is_taken(desk: Desk, start_replica: StartReplica) -> None:
    others = [await start_replica(max_concurrent_runs=0) for _ in range(2)]
    stores = [desk.replica.questions, *(other.questions for other in others)]
    for _ in range(5):
        run, asked = await desk.asking()
        calls = [
            stores[number % 3].answer(
                Caller(f"approver-{number}", frozenset({"approver"})),
                Answer(run.run_id, asked.input_request.input_request_id, f"answer {number}", "plan-1"),
            )
            for number in range(12)
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        [taken] = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, str)]
        refused = {getattr(outcome, "reason", outcome) for outcome in outcomes if isinstance(outcome, Exception)}
        assert refused == {"QUESTION_ANSWERED"}
        done = await desk.done(run)
        assert (done.state, desk.replica.counting.answers[-1]) == (RunState.SUCCEEDED, f"answer {taken}")
        [(count,)] = await desk.rows(
            "SELECT count(*) FROM platform.run_events WHERE run_id = %s AND payload ? 'input_received'", run
        )
        assert count == 1


async def test_an_answer_and_the_expiry_race_and_one_of_them_wins(desk: Desk, counting: Counting) -> None:
    for _ in range(8):
        counting.answers.clear()
        run, asked = await desk.asking()
        async with desk.replica.pool.connection() as connection:
            # Now, by the database's clock: the sweeps of the replica and the answer are after the same row.
            await connection.execute("UPDATE platform.runs SET expires_at = now() WHERE run_id = %s", [run.run_id])
        try:
            await desk.answer(asked, "yes", *APPROVER)
            said = "yes"
        except grpc.aio.AioRpcError:
            said = "expired"
        await desk.done(run)
        assert counting.answers == [said]
        closed = (await desk.seen(run, *APPROVER)).state
        assert closed == (
            questions_pb2.QUESTION_STATE_ANSWERED if said == "yes" else questions_pb2.QUESTION_STATE_EXPIRED
        )


async def test_pages_are_oldest_first_and_leave_nothing_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [(await desk.asking())[0].run_id for _ in range(5)]
    assert [each.run_id for each in await desk.listed(*APPROVER, page_size=2)] == runs
    monkeypatch.setattr("services.runtime.engine.pages.MOST_BYTES", 1)
    assert [each.run_id for each in await desk.listed(*APPROVER)] == runs
    assert not await desk.listed(*APPROVER, agent="data_chat")
    assert len(await desk.listed(*APPROVER, agent="counting")) == 5


async def test_expiry_is_told_to_the_graph_and_is_an_event_and_a_row_of_the_ledger(
    desk: Desk, counting: Counting
) -> None:
    counting.expires_in_s = 0.0
    run, _ = await desk.replica.engine.create(new_run(until=3))
    done = await desk.done(run)
    assert (done.state, counting.answers) == (RunState.SUCCEEDED, ["expired"])
    events = await desk.rows("SELECT payload FROM platform.run_events WHERE run_id = %s", run)
    [received] = [payload["input_received"] for (payload,) in events if payload and "input_received" in payload]
    assert received["expired"] is True
    ledger = await desk.rows("SELECT calls FROM platform.decisions WHERE run_id = %s AND sequence = 2", run)
    assert [(call["name"], call["outcome"]) for call in ledger[0][0] if call["kind"] == "person"] == [("", "expired")]


async def test_retention_takes_questions_with_the_events_and_says_so(desk: Desk) -> None:
    run, asked = await desk.asking()
    await desk.answer(asked, "yes", *APPROVER)
    await desk.done(run)
    policy = RetentionPolicy(history_minutes=10, checkpoint_days=1, event_days=1, run_days=2)
    pruner = Pruner(
        desk.replica.pools.upkeep, CheckpointHistory(desk.replica.pools.steps, make_serde()), {"default": policy}
    )
    assert await pruner.due() == []
    async with desk.replica.pool.connection() as connection:
        await connection.execute("UPDATE platform.runs SET ended_at = now() - interval '25 hours'")
    due = {removal.kind: removal.row_count for removal in await pruner.due()}
    batch = await pruner.prune(wait=True)
    assert batch
    assert due[RetainedData.QUESTIONS] == 1
    assert {removal.kind: removal.row_count for removal in batch.removals}[RetainedData.QUESTIONS] == 1
    gone = desk.stub.GetQuestion(questions_pb2.GetQuestionRequest(run_id=run.run_id), metadata=gateway_word(*APPROVER))
    assert (await refusal(gone)).reason == "QUESTION_NOT_FOUND"
    assert (await desk.replica.store.get(run.run_id, run.caller)).state is RunState.SUCCEEDED


async def test_a_thread_is_read_while_its_run_waits_and_deleted_with_its_questions(desk: Desk) -> None:
    run, asked = await desk.asking(thread_id="talk")
    replica = desk.replica
    threads = ThreadStore(replica.pools.calls, make_serde(), replica.store, {"counting": replica.agent})
    assert (await threads.get(run.caller, "talk")).active_run_id == run.run_id
    assert [each.run_id for each in await threads.runs(run.caller, "talk")] == [run.run_id]
    snapshot, _ = await threads.state(run.caller, "talk", run.run_id, None)
    assert snapshot.values["counts"] == [1]
    with pytest.raises(ThreadBusy):
        await threads.delete(run.caller, "talk")

    await desk.answer(asked, "the answer", *APPROVER)
    await desk.done(run)
    await threads.delete(run.caller, "talk")
    assert await desk.rows("SELECT 1 FROM platform.questions WHERE run_id = %s", run) == []
    ledger = await desk.rows("SELECT facts, calls FROM platform.decisions WHERE run_id = %s", run)
    assert ledger
    assert all(row == ({}, []) for row in ledger)


async def test_runs_that_wait_have_a_quota_of_their_own(start_replica: StartReplica, counting: Counting) -> None:
    replica = await start_replica(counting, quota=CallerQuota(runs_at_once=1, runs_waiting=2))
    for _ in range(2):
        # None of those that wait is under way.
        run, _ = await replica.engine.create(new_run(until=3))
        assert (await asyncio.wait_for(ended(replica, run), TIMEOUT_S)).state is RunState.AWAITING_INPUT
    with pytest.raises(TooManyRunsWaiting):
        await replica.engine.create(new_run(until=3))
    await replica.engine.create(new_run("another", until=1))
    approver = Caller("bob", frozenset({"approver"}))
    [first, _] = await replica.questions.select(approver, limit=10)
    await replica.engine.answer(approver, Answer(first.run_id, first.input_request_id, "yes", "plan-1"))
    await asyncio.wait_for(ended(replica, await replica.store.get(first.run_id, run.caller)), TIMEOUT_S)
    _, is_new = await replica.engine.create(new_run(until=1))
    assert is_new
