"""Questions while two releases serve side by side: the last one's own statements, on this one's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest
from psycopg.rows import dict_row

from services.kit.identity.caller import Caller
from services.runtime.engine.database import PlatformPool
from services.runtime.engine.questions import Answer, AnswerRight, QuestionRecord, Questions, QuestionState
from services.runtime.engine.records import InputRequest, RunRecord, RunState
from services.runtime.errors import AnswerUnscreened, QuestionAnswered
from tests.fixtures.release import last_release
from tests.integration.runtime.conftest import AGENTS, OwnerStore, new_run

BACKFILL = files("services.runtime").joinpath("migrations", "0053_pre_open_questions.sql").read_text()
ANN = Caller("ann", frozenset())
BOB = Caller("bob", frozenset({"approver"}))


def question(**changes: Any) -> InputRequest:
    """A question that waits for an hour."""
    asked = {"input_request_id": "q1", "question": "Go on?", "options": ("yes", "no")}
    return InputRequest(**{**asked, "expires_at": datetime.now(UTC) + timedelta(hours=1), **changes})


class Old:
    """The last release, as far as the database knows it: by its statements."""

    def __init__(self, pool: PlatformPool, folder: Path) -> None:
        self._pool = pool
        self._sql = last_release(folder).folder / "services/runtime/engine/sql"

    async def run(self, name: str, **parameters: Any) -> Sequence[Mapping[str, Any]]:
        """Executes one of its statements; returns the runs that it believes to have changed."""
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute((self._sql / f"{name}.sql").read_text(), parameters)
            return await cursor.fetchall()

    async def answer(self, run: RunRecord, text: str) -> Sequence[Mapping[str, Any]]:
        """Takes an answer as that release does."""
        return await self.run("answer_run", run_id=run.run_id, answer=text, input_request_id="q1")


@pytest.fixture
def old(platform_pool: PlatformPool, tmp_path: Path) -> Old:
    return Old(platform_pool, tmp_path)


@pytest.fixture
def questions(platform_pool: PlatformPool) -> Questions:
    return Questions(platform_pool)


async def running(store: OwnerStore) -> RunRecord:
    """A run of Ann's that a replica has claimed."""
    run, _ = await store.create(new_run("ann"), claim=True)
    return run


async def paused(store: OwnerStore, **changes: Any) -> RunRecord:
    """A run of Ann's that this release has paused with a question."""
    return await store.await_input(await running(store), question(**changes))


async def seen(questions: Questions, run: RunRecord) -> QuestionRecord:
    """The question of a run as an operator sees it."""
    return await questions.get(Caller("olga", frozenset({"operator"})), run.run_id)


async def test_what_the_last_release_asks_is_answered_by_this_one(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    run = await running(first)
    said = question().to_data()
    of_then = {name: said[name] for name in ("input_request_id", "question", "options", "expires_at")}
    [changed] = await old.run(
        "await_input", run_id=run.run_id, epoch=run.epoch, input_request=orjson.dumps(of_then).decode()
    )
    assert changed["state"] == "AWAITING_INPUT"
    asked = await seen(questions, run)
    assert (asked.state, asked.for_caller, asked.roles, asked.options) == (
        QuestionState.OPEN, True, [], ["yes", "no"],
    )  # fmt: skip
    await questions.answer(ANN, Answer(run.run_id, "q1", "yes", ""))
    after = await first.get(run.run_id, ANN)
    assert (after.state, after.answer) == (RunState.PENDING, "yes")
    [going_on] = await first.upkeep.claim_pending(1, AGENTS)
    assert going_on.run_id == run.run_id


async def test_what_this_one_asks_a_caller_is_answered_by_the_last(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    run = await paused(first)
    [changed] = await old.answer(run, "yes")
    assert (changed["state"], changed["answer"]) == ("PENDING", "yes")
    closed = await seen(questions, run)
    # That release does not say who answered.
    assert (closed.state, closed.answer, closed.answered_by, closed.answered_as) == (
        QuestionState.ANSWERED, "yes", None, None,
    )  # fmt: skip
    with pytest.raises(QuestionAnswered):
        await questions.answer(ANN, Answer(run.run_id, "q1", "no", ""))
    assert await old.answer(run, "no") == []


async def test_what_others_are_to_answer_the_last_release_takes_from_nobody(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    run = await paused(first, for_caller=False, roles=("approver",), plan_hash="plan-1")
    assert await old.answer(run, "yes") == []
    assert (await seen(questions, run)).state is QuestionState.OPEN
    await questions.answer(BOB, Answer(run.run_id, "q1", "yes", "plan-1"))
    assert (await seen(questions, run)).answered_as is AnswerRight.ROLE
    assert (await first.get(run.run_id, ANN)).state is RunState.PENDING


async def test_an_expiry_that_the_graph_decides_on_the_last_release_leaves_to_it(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    over = datetime.now(UTC) - timedelta(seconds=1)
    run = await paused(first, expires_at=over, expires_to_graph=True)
    assert await old.run("expire_questions") == []
    assert (await first.get(run.run_id, ANN)).state is RunState.AWAITING_INPUT
    [passed_on] = await first.upkeep.expire_questions()
    assert (passed_on.run_id, passed_on.state) == (run.run_id, RunState.PENDING)
    assert (await seen(questions, run)).state is QuestionState.EXPIRED


async def test_an_expiry_that_ends_the_run_may_be_noticed_by_either(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    run = await paused(first, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    [ended] = await old.run("expire_questions")
    assert (ended["state"], ended["stop_reason"]) == ("NEEDS_REVIEW", "input_expired")
    assert (await seen(questions, run)).state is QuestionState.EXPIRED


async def test_a_run_that_the_last_release_cancels_asks_nothing_any_more(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    run = await paused(first)
    assert await old.run("cancel_run", run_id=run.run_id)
    assert (await seen(questions, run)).state is QuestionState.WITHDRAWN


async def test_the_last_release_takes_no_words_that_are_to_be_screened(
    first: OwnerStore, old: Old, questions: Questions
) -> None:
    run = await paused(first, any_text=True, screened=True)
    assert await old.answer(run, "by all means") == []
    assert (await seen(questions, run)).state is QuestionState.OPEN
    # This release takes none either where it has nobody to screen them.
    with pytest.raises(AnswerUnscreened):
        await questions.answer(ANN, Answer(run.run_id, "q1", "by all means", ""))
    [changed] = await old.answer(run, "yes")
    assert (changed["state"], changed["answer"]) == ("PENDING", "yes")


async def test_what_was_asked_before_there_was_a_table_is_found_in_it(
    first: OwnerStore, questions: Questions, platform_pool: PlatformPool
) -> None:
    run, done = await paused(first), await paused(first, input_request_id="q2")
    await questions.answer(ANN, Answer(done.run_id, "q2", "yes", ""))
    async with platform_pool.connection() as connection:
        await connection.execute("DELETE FROM platform.questions")
        await connection.execute(BACKFILL)
        cursor = await connection.execute("SELECT run_id::text, state FROM platform.questions")
        assert await cursor.fetchall() == [(run.run_id, "OPEN")]
