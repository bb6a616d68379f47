"""Pages of questions: those that wait, and one to be answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.struct_pb2 import Value
from signalbox.v1 import questions_pb2, runs_pb2
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.agent_names import agent_names
from services.console.errors import BadRequest, ConsoleError
from services.console.filters import Filters
from services.console.forms import read_form
from services.console.gateway import Gateway
from services.console.graph_changes import changes_of
from services.console.json_values import answer_value
from services.console.settings import ConsoleSettings
from services.console.showing import page
from services.kit.telemetry.names import ROLE_OPERATOR

FIELDS = ("agent", "whose", "page")
WHOSE = ("answerable", "all")
NAMES = {"page_token": "page"}
# Of the fields of a form, before the id of the interrupt that each answers.
INTERRUPT = "interrupt."
CLOSED: Mapping[int, str] = {
    questions_pb2.QUESTION_STATE_ANSWERED: "answered",
    questions_pb2.QUESTION_STATE_EXPIRED: "expired",
    questions_pb2.QUESTION_STATE_WITHDRAWN: "withdrawn",
}
MAY_ASSIGN = frozenset((runs_pb2.ANSWER_RIGHT_CALLER, runs_pb2.ANSWER_RIGHT_ROLE))


@dataclass(frozen=True)
class Draft:
    """An answer that was not taken: what was chosen, what was written, and to which question."""

    input_request_id: str = ""
    option: str = ""
    text: str = ""
    # To several interrupts, by their ids.
    texts: Mapping[str, str] = field(default_factory=dict)


class QuestionPages:
    """The list of questions, and the page of each."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Returns where these pages are."""
        return (
            Route("/questions", self.list),
            Route("/questions/{run_id}", self.question),
            Route("/questions/{run_id}", self.answer, methods=["POST"]),
            Route("/questions/{run_id}/assignee", self.assign, methods=["POST"]),
        )

    async def list(self, request: Request) -> Response:
        """Lists the questions that wait, oldest first."""
        filters = Filters.of(request.query_params, FIELDS)
        whose = filters.choice("whose", WHOSE, WHOSE[0])
        wanted = questions_pb2.ListQuestionsRequest(
            answerable=whose == WHOSE[0],
            agent=filters["agent"],
            page_token=filters["page"],
            page_size=self._settings.page_size,
        )
        found = questions_pb2.ListQuestionsResponse()
        agents = await agent_names(self._gateway)
        if not filters.problems:
            try:
                found = await self._gateway.call(self._gateway.questions.ListQuestions, wanted)
            except BadRequest as error:
                filters.refused(error, NAMES)
        more = filters.address("/questions", page=found.next_page_token) if found.next_page_token else ""
        return page(
            "questions.html.j2",
            "questions",
            status=400 if filters.problems else 200,
            filters=filters,
            agents=agents,
            whose=whose,
            questions=[(each, answerers(each)) for each in found.questions],
            more=more,
        )

    async def question(self, request: Request) -> Response:
        """Shows the question that a run asked last, with a form where it waits for this caller's answer."""
        return await self._page(request.path_params["run_id"])

    async def answer(self, request: Request) -> Response:
        """Gives an answer; one that is refused is shown again with the reason, and stays where it was written."""
        run_id = request.path_params["run_id"]
        form = await read_form(request, self._settings.max_form_bytes)
        texts = {name.removeprefix(INTERRUPT): text for name, text in form.items() if name.startswith(INTERRUPT)}
        draft = Draft(form.get("input_request_id", ""), form.get("option", ""), form.get("text", ""), texts)
        given = questions_pb2.AnswerQuestionRequest(
            run_id=run_id,
            input_request_id=draft.input_request_id,
            plan_hash=form.get("plan_hash", ""),
            answer=draft.option or draft.text.strip(),
        )
        try:
            for interrupt_id, text in texts.items():
                if text.strip():
                    given.answers[interrupt_id].CopyFrom(_value_of(text))
            await self._gateway.call(self._gateway.questions.AnswerQuestion, given)
        except ConsoleError as error:
            return await self._refused(run_id, error, draft)
        return RedirectResponse(f"/questions/{run_id}", status_code=303)

    async def assign(self, request: Request) -> Response:
        """Names who may answer besides."""
        run_id = request.path_params["run_id"]
        form = await read_form(request, self._settings.max_form_bytes)
        wanted = questions_pb2.AssignQuestionRequest(
            run_id=run_id,
            input_request_id=form.get("input_request_id", ""),
            assignee=form.get("assignee", "").strip(),
        )
        try:
            await self._gateway.call(self._gateway.questions.AssignQuestion, wanted)
        except ConsoleError as error:
            return await self._refused(run_id, error, Draft())
        return RedirectResponse(f"/questions/{run_id}", status_code=303)

    async def _refused(self, run_id: str, error: ConsoleError, draft: Draft) -> Response:
        try:
            return await self._page(run_id, error=error, draft=draft)
        except ConsoleError:
            # Nor can the question be read, as while the gateway is away: what was written must not be lost.
            return page(
                "unsent_answer.html.j2", "questions", status=error.status, run_id=run_id, error=error, unsent=draft
            )

    async def _page(self, run_id: str, *, error: ConsoleError | None = None, draft: Draft | None = None) -> Response:
        request = questions_pb2.GetQuestionRequest(run_id=run_id)
        question = (await self._gateway.call(self._gateway.questions.GetQuestion, request)).question
        given = draft or Draft()
        is_open = question.state == questions_pb2.QUESTION_STATE_OPEN
        may_answer = is_open and bool(question.right)
        # What was meant for another question is not in this one's form, and not lost either.
        is_kept = may_answer and given.input_request_id == question.input_request.input_request_id
        return page(
            "question.html.j2",
            "questions",
            status=error.status if error else 200,
            question=question,
            is_open=is_open,
            became=CLOSED.get(question.state, "closed"),
            answerers=answerers(question),
            changes=changes_of(question.graph_change_set),
            may_answer=may_answer,
            may_assign=is_open and question.right in MAY_ASSIGN,
            error=error,
            draft=given if is_kept else Draft(),
            unsent=Draft() if is_kept else given,
        )


def _value_of(text: str) -> Value:
    try:
        return answer_value(text)
    except ValueError as error:
        raise BadRequest(f"The answer {text[:20]!r} can't be sent: it {error}.") from error


def answerers(question: questions_pb2.Question) -> Sequence[str]:
    """Returns who may answer, in words."""
    named: Iterable[str] = (
        *(["the caller"] if question.for_caller else []),
        *(f"role {role}" for role in question.roles),
        *([question.assignee] if question.assignee else []),
    )
    return tuple(named) or (f"role {ROLE_OPERATOR}",)
