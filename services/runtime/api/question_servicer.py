"""QuestionService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from google.protobuf import json_format
from signalbox.v1 import graph_editor_pb2, questions_pb2, questions_pb2_grpc, runs_pb2

from services.runtime.api.callers import Callers, Context
from services.runtime.api.page_tokens import run_place_of, time_token
from services.runtime.api.wire import answers_of, interrupts_proto, right_of, timestamp_proto
from services.runtime.engine.engine import Engine
from services.runtime.engine.pages import fitting
from services.runtime.engine.questions import Answer, QuestionRecord, Questions, QuestionState
from services.runtime.hosted.interrupts import INTERRUPTS
from services.runtime.routing.asking import GRAPH_CHANGE_SET

QUESTIONS_PAGE = 50


class QuestionServicer(questions_pb2_grpc.QuestionServiceServicer):
    """Serves questions."""

    def __init__(self, callers: Callers, engine: Engine, questions: Questions) -> None:
        self._callers = callers
        self._engine = engine
        self._questions = questions

    async def ListQuestions(
        self, request: questions_pb2.ListQuestionsRequest, context: Context
    ) -> questions_pb2.ListQuestionsResponse:
        """Lists questions that wait, oldest first."""
        limit = request.page_size or QUESTIONS_PAGE
        found = await self._questions.select(
            self._callers.caller(context),
            limit=limit + 1,
            answerable=request.answerable,
            agent=request.agent or None,
            after=run_place_of(request.page_token),
        )
        page = fitting(map(question_proto, found[:limit]))
        last = found[len(page) - 1] if len(found) > len(page) else None
        token = time_token(last.asked_at, last.run_id) if last else ""
        return questions_pb2.ListQuestionsResponse(questions=page, next_page_token=token)

    async def GetQuestion(
        self, request: questions_pb2.GetQuestionRequest, context: Context
    ) -> questions_pb2.GetQuestionResponse:
        """Returns a question."""
        caller = self._callers.caller(context)
        found = await self._questions.get(caller, request.run_id, request.input_request_id)
        return questions_pb2.GetQuestionResponse(question=question_proto(found))

    async def AnswerQuestion(
        self, request: questions_pb2.AnswerQuestionRequest, context: Context
    ) -> questions_pb2.AnswerQuestionResponse:
        """Answers a question."""
        caller = self._callers.caller(context)
        answers = answers_of(request)
        given = Answer(request.run_id, request.input_request_id, request.answer, request.plan_hash, answers)
        await self._engine.answer(caller, given)
        answered = await self._questions.get(caller, request.run_id, request.input_request_id)
        return questions_pb2.AnswerQuestionResponse(question=question_proto(answered))

    async def AssignQuestion(
        self, request: questions_pb2.AssignQuestionRequest, context: Context
    ) -> questions_pb2.AssignQuestionResponse:
        """Names who may answer a question besides."""
        caller = self._callers.caller(context)
        assigned = await self._questions.assign(caller, request.run_id, request.input_request_id, request.assignee)
        return questions_pb2.AssignQuestionResponse(question=question_proto(assigned))


def question_proto(asked: QuestionRecord) -> questions_pb2.Question:
    """Returns a question, and what it is about."""
    proto = questions_pb2.Question(
        run_id=asked.run_id,
        input_request=runs_pb2.InputRequest(
            input_request_id=asked.input_request_id,
            question=asked.question,
            options=asked.options,
            expire_time=timestamp_proto(asked.expires_at),
            any_text=asked.any_text,
            interrupts=interrupts_proto((asked.detail or {}).get(INTERRUPTS) or ()),
        ),
        agent=asked.agent,
        subject=asked.subject,
        plan_hash=asked.plan_hash,
        state=f"QUESTION_STATE_{asked.state}",
        for_caller=asked.for_caller,
        roles=asked.roles,
        assignee=asked.assignee or "",
        ask_time=timestamp_proto(asked.asked_at),
        escalated_from=asked.escalated_from,
        right=right_of(asked.granted),
    )
    changes = (asked.detail or {}).get(GRAPH_CHANGE_SET)
    if changes is not None:
        # Fields that another release has put there are not known to this one.
        read = json_format.ParseDict(changes, graph_editor_pb2.GraphChangeSet(), ignore_unknown_fields=True)
        proto.graph_change_set.CopyFrom(read)
    if asked.state is QuestionState.ANSWERED:
        proto.answer.CopyFrom(_answer(asked))
    return proto


def _answer(asked: QuestionRecord) -> questions_pb2.QuestionAnswer:
    return questions_pb2.QuestionAnswer(
        answer=asked.answer or "",
        subject=asked.answered_by or "",
        right=right_of(asked.answered_as),
        role=asked.answered_role or "",
        answer_time=timestamp_proto(asked.closed_at),
    )
