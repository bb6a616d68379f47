"""`signalbox waiting`, `resume` and `assign`: what runs ask people, and the answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.text import Text
from signalbox.v1 import questions_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.progress import progress_on
from services.cli.terminal import Terminal
from services.kit.names import ROLE_OPERATOR
from services.kit.printing import printable

PAGE = 500
CLOSED = {
    questions_pb2.QUESTION_STATE_ANSWERED: "its question has been answered",
    questions_pb2.QUESTION_STATE_EXPIRED: "its question has expired",
    questions_pb2.QUESTION_STATE_WITHDRAWN: "it has ended, and asks nothing any more",
}


async def waiting(connection: Connection, terminal: Terminal, *, limit: int, as_json: bool) -> ExitCode:
    """Shows the questions that wait, oldest first: those to answer, and those of one's own runs."""
    async with open_gateway(connection) as gateway:
        questions = await _waiting(gateway, limit)
    if as_json:
        terminal.json_list(questions)
        return ExitCode.OK
    if not questions:
        terminal.err.print(Text("no run awaits an answer"))
    for each in questions:
        who = f"  {each.agent}, for {printable(each.subject)}; {_answerers(each)}"
        terminal.out.print(Text.assemble((printable(each.run_id), "bold"), who))
        terminal.out.print(render.question(each.input_request), Text())
    return ExitCode.OK


async def resume(
    connection: Connection, run_id: str, answer: str, terminal: Terminal, *, timeout_s: float | None
) -> ExitCode:
    """Answers a run's question, asked for on a terminal if none is given; then follows the run, where one may."""
    async with open_gateway(connection) as gateway:
        given = await answer_question(gateway, run_id, answer, terminal)
        if given.right != runs_pb2.ANSWER_RIGHT_CALLER and given.role != ROLE_OPERATOR:
            # The question was theirs to answer, and the run is not theirs to see.
            terminal.out.print(Text(f"{printable(run_id)} has its answer, and goes on"))
            return ExitCode.OK
        with progress_on(terminal.err) as progress:
            async for event in gateway.watch(run_id, 0, timeout_s=timeout_s):
                # What came before the answer was seen when it came.
                if event.event_time.ToNanoseconds() >= given.answer_time.ToNanoseconds():
                    progress.event(event)
        run = await gateway.get(run_id)
    terminal.out.print(render.answer(run))
    return exit_code_of(run)


async def answer_question(
    gateway: GatewayClient, run_id: str, answer: str, terminal: Terminal | None = None
) -> questions_pb2.QuestionAnswer:
    """Answers the question that a run waits with; without an answer, asks for one. Returns it as it was taken."""
    asked = await _asked(gateway, run_id)
    request = questions_pb2.AnswerQuestionRequest(
        run_id=run_id,
        input_request_id=asked.input_request.input_request_id,
        plan_hash=asked.plan_hash,
        answer=answer or _asked_for(asked, terminal),
    )
    response = await gateway.call(gateway.questions.AnswerQuestion, request)
    return response.question.answer


async def assign(connection: Connection, run_id: str, assignee: str, terminal: Terminal) -> ExitCode:
    """Names who may answer a run's question besides; nobody, when empty."""
    async with open_gateway(connection) as gateway:
        asked = await _asked(gateway, run_id)
        request = questions_pb2.AssignQuestionRequest(
            run_id=run_id, input_request_id=asked.input_request.input_request_id, assignee=assignee
        )
        response = await gateway.call(gateway.questions.AssignQuestion, request)
    terminal.out.print(Text(f"{printable(run_id)}: {_answerers(response.question)}"))
    return ExitCode.OK


async def _waiting(gateway: GatewayClient, limit: int) -> list[questions_pb2.Question]:
    found: list[questions_pb2.Question] = []
    request = questions_pb2.ListQuestionsRequest()
    while len(found) < limit:
        request.page_size = min(limit - len(found), PAGE)
        page = await gateway.call(gateway.questions.ListQuestions, request)
        found.extend(page.questions)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    return found


async def _asked(gateway: GatewayClient, run_id: str) -> questions_pb2.Question:
    """Returns the question that waits. Raises CliError where there is none."""
    response = await gateway.call(gateway.questions.GetQuestion, questions_pb2.GetQuestionRequest(run_id=run_id))
    asked: questions_pb2.Question = response.question
    if asked.state != questions_pb2.QUESTION_STATE_OPEN:
        raise CliError(
            f"{run_id} waits for no answer: {CLOSED.get(asked.state, 'what became of its question is not known')}",
            hint="`signalbox waiting` lists the questions that wait",
            code=ExitCode.REFUSED,
        )
    return asked


def _asked_for(asked: questions_pb2.Question, terminal: Terminal | None) -> str:
    """Asks the person at the terminal. Raises CliError where there is none."""
    if terminal is None or not sys.stdin.isatty():
        raise CliError(
            f"{asked.run_id} asks a question, and no answer was given: {asked.input_request.question}",
            hint="give one with --answer",
            code=ExitCode.USAGE,
        )
    terminal.err.print(render.question(asked.input_request))
    return terminal.err.input("> ")


def _answerers(asked: questions_pb2.Question) -> str:
    """Who may answer, in words."""
    named: Iterable[str] = (
        *(["the caller"] if asked.for_caller else []),
        *(f"role {printable(role)}" for role in asked.roles),
        *([printable(asked.assignee)] if asked.assignee else []),
    )
    who = ", ".join(named) or f"role {ROLE_OPERATOR}"
    yours = "" if asked.right else "; you may not"
    return f"to be answered by {who}{yours}"
