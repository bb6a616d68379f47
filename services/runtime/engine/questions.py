"""Questions that runs ask people: who may see and answer them, and what is made of an answer.

Rows come and go with their run's state, by triggers on its table: also when a replica that does not know this table
pauses the run. Only the statement that takes an answer decides whether it is taken, and whether it must be screened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn, Protocol, Self

from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from services.kit.identity.caller import Caller
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import ANSWER, ROLE_OPERATOR
from services.kit.telemetry.tracing import link_to
from services.runtime.engine.queries import query
from services.runtime.errors import (
    AnswerBlocked,
    AnswerNotAllowed,
    AnswerUnscreened,
    InvalidAnswer,
    PlanMoved,
    QuestionAnswered,
    QuestionExpired,
    QuestionNotFound,
    RolesLost,
    StaleAnswer,
)
from services.runtime.hosted.interrupts import LONGEST_ANSWERS, check_answers
from services.runtime.metrics import ANSWERS_REFUSED, QUESTIONS_CLOSED
from services.runtime.routing.recorder import CallRecord

log = get_logger()
TAKEN, REPEATED, UNSCREENED, BLOCKED = "taken", "repeated", "unscreened", "blocked"
# The answer to a hosted graph, which is held to what its interrupts take.
UNCHECKED = "unchecked"


class AnswerRight(StrEnum):
    """By which right a caller answers."""

    CALLER = "caller"
    ROLE = "role"
    ASSIGNEE = "assignee"


class QuestionState(StrEnum):
    """What became of a question."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"


@dataclass(frozen=True)
class Answer:
    """An answer to a question; `plan_hash` is that of the plan it is about, and None is whichever that is.

    `answers` are those to interrupts of a hosted graph, by their ids, in the place of the text.
    """

    run_id: str
    input_request_id: str
    text: str
    plan_hash: str | None = None
    answers: Mapping[str, Any] | None = None

    @property
    def kept(self) -> str:
        """What is kept of it. Raises InvalidAnswer for what is too long, or holds a NUL."""
        if self.answers is None:
            return self.text
        written = json.dumps(self.answers, ensure_ascii=False, sort_keys=True)
        if len(written) > LONGEST_ANSWERS or "\\u0000" in written:
            raise InvalidAnswer(f"the answers have more than {LONGEST_ANSWERS:,} characters as JSON, or a NUL")
        return written


@dataclass(frozen=True)
class QuestionRecord:
    """A row of the table `questions`, as a caller sees it: `granted` is their right to answer."""

    run_id: str
    input_request_id: str
    agent: str
    subject: str
    question: str
    options: list[str]
    any_text: bool
    plan_hash: str
    detail: Mapping[str, Any] | None
    for_caller: bool
    roles: list[str]
    assignee: str | None
    escalated_from: str
    state: QuestionState
    asked_at: datetime
    expires_at: datetime
    answer: str | None
    answered_by: str | None
    answered_as: AnswerRight | None
    answered_role: str | None
    closed_at: datetime | None
    granted: AnswerRight | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Reads a row."""
        rights = {name: AnswerRight(row[name]) if row[name] else None for name in ("answered_as", "granted")}
        return cls(**{**row, **rights, "run_id": str(row["run_id"]), "state": QuestionState(row["state"])})


@dataclass(frozen=True)
class WordsOfRun:
    """What was said in a run before an answer: its serialized input, then questions, each with its answer.

    The last is the question that is to be answered.
    """

    run_id: str
    agent: str
    correlation_id: str
    epoch: int
    input: bytes
    asked: list[list[str]]


class AnswerScreening(Protocol):
    """Has answers screened."""

    async def screen(self, caller: Caller, words: WordsOfRun, answer: str) -> list[CallRecord]:
        """Returns the calls that it took to have an answer allowed. Raises AnswerBlocked, AnswerUnscreened."""

    def charge(self, caller: Caller, agent: str, calls: list[CallRecord]) -> None:
        """Charges whoever gave an answer that was not taken with the calls of its screening."""


class Questions:
    """The table `questions`; without screening, nothing is taken that has to be screened."""

    def __init__(self, pool: AsyncConnectionPool[Any], screening: AnswerScreening | None = None) -> None:
        self._pool = pool
        self._screening = screening

    async def select(
        self,
        caller: Caller,
        *,
        limit: int,
        answerable: bool = False,
        agent: str | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> list[QuestionRecord]:
        """Returns questions that wait, oldest first: those that a caller may answer, and those of their own runs."""
        after_asked, after_run_id = after or (None, None)
        parameters = {
            **_who(caller),
            "answerable": answerable,
            "agent": agent,
            "limit": limit,
            "after_asked": after_asked,
            "after_run_id": after_run_id,
        }
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query("list_questions"), parameters)
            return [QuestionRecord.of(row) for row in await cursor.fetchall()]

    async def get(self, caller: Caller, run_id: str, input_request_id: str = "") -> QuestionRecord:
        """Returns a question, by default the one that the run asked last. Raises QuestionNotFound."""
        async with self._pool.connection() as connection:
            return await self._get(connection, caller, run_id, input_request_id)

    async def answer(self, caller: Caller, given: Answer) -> str:
        """Takes an answer; its run is pending. A repeat by the same caller is none. Returns the run's agent.

        Raises QuestionNotFound, RolesLost, AnswerNotAllowed, QuestionAnswered, QuestionExpired, StaleAnswer, PlanMoved,
        InvalidAnswer, AnswerBlocked, AnswerUnscreened.
        """
        parameters = {
            **_who(caller),
            "run_id": given.run_id,
            "input_request_id": given.input_request_id,
            "answer": given.kept,
            "by_id": given.answers is not None,
            "fits": False,
            "plan_hash": given.plan_hash,
            "screening": None,
        }
        judged = await self._judged("answer_question", parameters)
        if judged and judged["outcome"] == UNCHECKED:
            check_answers(judged["interrupts"], given.text, given.answers)
            parameters["fits"] = True
            judged = await self._judged("answer_question", parameters)
        if judged and judged["outcome"] == UNSCREENED:
            # Nothing else stands in its way. While it is screened, another answer may be taken, and this one refused.
            agent, screening = judged["agent"], self._screening
            if screening is None:
                raise AnswerUnscreened("this replica can't screen the answer; ask another one")
            calls = await self._screened(screening, caller, given)
            judged = await self._judged("answer_question", {**parameters, "screening": Jsonb(calls)})
            if judged is None or judged["outcome"] != TAKEN:
                screening.charge(caller, agent, calls)
        if judged is None:
            raise _not_found(given.run_id)
        outcome = judged["outcome"]
        if judged["granted"]:
            link_to(judged["traceparent"], ANSWER)
        if outcome == TAKEN:
            QUESTIONS_CLOSED.labels(judged["agent"], judged["granted"]).inc()
            log.info("question answered", run_id=given.run_id, right=judged["granted"])
        elif outcome != REPEATED:
            ANSWERS_REFUSED.labels(outcome).inc()
            _refuse(outcome, given.run_id, judged)
        return str(judged["agent"])

    async def assign(self, caller: Caller, run_id: str, input_request_id: str, assignee: str) -> QuestionRecord:
        """Names who may answer besides; nobody, when empty. Returns the question.

        Raises QuestionNotFound, RolesLost, AnswerNotAllowed, QuestionAnswered, QuestionExpired, StaleAnswer.
        """
        parameters = {
            **_who(caller),
            "run_id": run_id,
            "input_request_id": input_request_id,
            "assignee": assignee,
        }
        judged = await self._judged("assign_question", parameters)
        if judged is None:
            raise _not_found(run_id)
        if judged["outcome"] != TAKEN:
            _refuse(judged["outcome"], run_id, judged)
        log.info("question assigned", run_id=run_id)
        return await self.get(caller, run_id, input_request_id)

    async def _screened(self, screening: AnswerScreening, caller: Caller, given: Answer) -> list[CallRecord]:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(WordsOfRun))
            parameters = {"run_id": given.run_id, "input_request_id": given.input_request_id}
            await cursor.execute(query("said_in_run"), parameters)
            words = await cursor.fetchone()
        if words is None:
            raise _not_found(given.run_id)
        try:
            return await screening.screen(caller, words, given.text)
        except AnswerBlocked:
            ANSWERS_REFUSED.labels(BLOCKED).inc()
            raise
        except AnswerUnscreened:
            ANSWERS_REFUSED.labels(UNSCREENED).inc()
            raise

    async def _judged(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query(name), parameters)
            row: dict[str, Any] | None = await cursor.fetchone()
            return row

    async def _get(
        self, connection: AsyncConnection[Any], caller: Caller, run_id: str, input_request_id: str
    ) -> QuestionRecord:
        parameters = {**_who(caller), "run_id": run_id, "input_request_id": input_request_id}
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(query("find_question"), parameters)
        row = await cursor.fetchone()
        if row is None:
            raise _not_found(run_id)
        return QuestionRecord.of(row)


def _who(caller: Caller) -> dict[str, Any]:
    return {"subject": caller.subject, "roles": sorted(caller.roles), "operator": ROLE_OPERATOR}


def _not_found(run_id: str) -> QuestionNotFound:
    return QuestionNotFound(f"run {run_id} asks this caller nothing of that kind", metadata={"run_id": run_id})


def _refuse(outcome: str, run_id: str, judged: Mapping[str, Any]) -> NoReturn:
    """Raises the error for an answer that was not taken."""
    metadata = {"run_id": run_id}
    match outcome:
        case "not_found":
            raise _not_found(run_id)
        case "roles_lost":
            raise RolesLost("you lack a role that the run was made with", metadata=metadata)
        case "not_allowed":
            raise AnswerNotAllowed("you may not answer this question", metadata=metadata)
        case "answered":
            raise QuestionAnswered("the question has been answered", metadata=metadata)
        case "expired":
            raise QuestionExpired("the question has expired", metadata=metadata)
        case "plan_moved":
            raise PlanMoved(
                "the question is about another plan than the answer; look at it again",
                metadata={**metadata, "plan_hash": judged["plan_hash"]},
            )
        case "not_by_id":
            raise InvalidAnswer("the question has no interrupts; answer it with a text")
        case "unfitting":
            raise InvalidAnswer(f"the answer must be one of: {', '.join(judged['options'])}")
        case _:
            raise StaleAnswer("the run does not ask this question now", metadata=metadata)
