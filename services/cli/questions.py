"""`signalbox waiting`, `resume` and `assign`: what runs ask people, and the answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from google.protobuf.struct_pb2 import Value
from rich.text import Text
from signalbox.v1 import questions_pb2, runs_pb2

from services.cli import render
from services.cli.client import Connection, GatewayClient, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.invocation import As, AsJson, Roles, RunId, Timeout, terminal
from services.cli.progress import progress_on
from services.cli.run_names import run_id_of
from services.cli.terminal import Terminal, prompt, run_command, run_part
from services.console.json_values import answer_value
from services.kit.telemetry.names import ROLE_OPERATOR
from services.kit.text.printing import printable

commands = typer.Typer()
# Fewer characters of an id may be a word of an answer.
SHORTEST_ID = 4
CLOSED = {
    questions_pb2.QUESTION_STATE_ANSWERED: "its question has been answered",
    questions_pb2.QUESTION_STATE_EXPIRED: "its question has expired",
    questions_pb2.QUESTION_STATE_WITHDRAWN: "it has ended, and asks nothing any more",
}


@commands.command("waiting")
def waiting_command(
    context: typer.Context,
    subject: As = None,
    roles: Roles = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List questions that wait for an answer: those you may answer, and those of your own runs."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(waiting(connection, terminal, limit=limit, as_json=as_json), terminal)


@commands.command("resume")
def resume_command(
    context: typer.Context,
    run: RunId,
    answer: Annotated[
        str, typer.Argument(metavar="ANSWER", help="Answer to the run's question; you are asked for it if left out.")
    ] = "",
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            metavar="TEXT|ID=JSON",
            help="The answer as an option; for one of several questions, ID=JSON. Repeatable.",
        ),
    ] = None,
    subject: As = None,
    roles: Roles = None,
    timeout: Timeout = None,
) -> None:
    """Answer the question that a run waits with; if the run is yours, follow it to its end."""
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    given, asked = [*(options or ()), *([answer] if answer else [])], None
    if not given:
        asked = run_part(question_of(connection, run, timeout_s=timeout), terminal)
        given = asked_for(asked.input_request, terminal)
    run_command(resume(connection, run, given, terminal, asked=asked, timeout_s=timeout), terminal)


@commands.command("assign")
def assign_command(
    context: typer.Context,
    run: RunId,
    assignee: Annotated[
        str,
        typer.Argument(metavar="USER", help="Subject of the person who may answer from now on; without one, nobody."),
    ] = "",
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Let one more person answer a run's question."""
    connection = context.obj.connection(subject, roles=roles)
    run = run_id_of(connection, run, terminal)
    run_command(assign(connection, run, assignee, terminal), terminal)


async def waiting(connection: Connection, terminal: Terminal, *, limit: int, as_json: bool) -> ExitCode:
    """Shows the questions that wait, oldest first: those to answer, and those of one's own runs."""
    async with open_gateway(connection) as gateway:
        questions = await gateway.listed(
            gateway.questions.ListQuestions, questions_pb2.ListQuestionsRequest(), "questions", limit=limit
        )
    if as_json:
        terminal.json_list(questions)
        return ExitCode.OK
    if not questions:
        terminal.err.print(Text("no run waits for an answer"))
    for each in questions:
        who = f"  {each.agent}, for {printable(each.subject)}; {_answerers(each)}"
        terminal.out.print(Text.assemble((printable(each.run_id), "bold"), who))
        terminal.out.print(render.question(each.input_request), Text())
    return ExitCode.OK


async def question_of(connection: Connection, run_id: str, *, timeout_s: float | None) -> questions_pb2.Question:
    """Returns the question that a run waits with. Raises CliError where there is none, or nobody here to be asked."""
    late = CliError(
        f"the question of run {run_id} did not come within {timeout_s} s",
        hint="try again in a moment",
        code=ExitCode.TIMED_OUT,
    )
    async with open_gateway(connection) as gateway, _within(timeout_s, late):
        asked = await _asked(gateway, run_id)
    if not sys.stdin.isatty():
        raise CliError(
            f"{run_id} asks a question, and no answer was given: {asked.input_request.question}",
            hint="give one with --answer",
            code=ExitCode.USAGE,
        )
    return asked


async def resume(
    connection: Connection,
    run_id: str,
    answers: Sequence[str],
    terminal: Terminal,
    *,
    asked: questions_pb2.Question | None,
    timeout_s: float | None,
) -> ExitCode:
    """Answers a run's question, the one that was `asked` where there is any; then follows the run, where one may."""
    late = CliError(
        f"run {run_id} did not take the answer within {timeout_s} s",
        hint=f"`signalbox show {run_id}` tells whether it still asks; if so, give the answer again",
        code=ExitCode.TIMED_OUT,
    )
    async with open_gateway(connection) as gateway:
        async with _within(timeout_s, late) as limit:
            question = await answer_question(gateway, run_id, answers, asked)
        if not _may_follow(question):
            terminal.out.print(Text(f"{printable(run_id)} has its answer and continues"))
            return ExitCode.OK
        with progress_on(terminal.err) as progress:
            async for event in gateway.watch(run_id, 0, timeout_s=_left_s(limit)):
                # What came before the answer was seen when it came.
                if event.event_time.ToNanoseconds() >= question.answer.answer_time.ToNanoseconds():
                    progress.event(event)
        run = await gateway.get(run_id)
    terminal.out.print(render.answer(run))
    return exit_code_of(run)


async def answer_question(
    gateway: GatewayClient, run_id: str, answers: Sequence[str], asked: questions_pb2.Question | None = None
) -> questions_pb2.Question:
    """Answers the question that a run waits with, or the one that was `asked`. Returns it as it was answered.

    Each answer is a text, or one to an interrupt as `ID=JSON`.
    """
    asked = asked or await _asked(gateway, run_id)
    request = questions_pb2.AnswerQuestionRequest(
        run_id=run_id,
        input_request_id=asked.input_request.input_request_id,
        plan_hash=asked.plan_hash,
    )
    by_id = answers_by_id(asked.input_request, answers)
    for interrupt_id, value in by_id.items():
        request.answers[interrupt_id].CopyFrom(value)
    if not by_id:
        try:
            request.answer = answers[0]
        except ValueError as error:  # as what a terminal sent that is not in its encoding
            raise _not_sent("the answer", error) from error
    response = await gateway.call(gateway.questions.AnswerQuestion, request)
    answered: questions_pb2.Question = response.question
    return answered


def answers_by_id(asked: runs_pb2.InputRequest, answers: Sequence[str]) -> dict[str, Value]:
    """Reads answers of the form `ID=JSON`; none where a text answers the question. Raises CliError."""
    if not answers:
        raise CliError("no answer was given", hint="give one with --answer", code=ExitCode.USAGE)
    ids = [each.interrupt_id for each in asked.interrupts]
    found: dict[str, Value] = {}
    for answer in answers:
        begin, equals, text = answer.partition("=")
        fitting = [each for each in ids if len(begin) >= SHORTEST_ID and each.startswith(begin)] if equals else []
        if len(fitting) == 1:
            try:
                found[fitting[0]] = answer_value(text)
            except ValueError as error:
                raise _not_sent(begin, error) from error
    if len(found) == len(answers) or (len(answers) == 1 and len(ids) < 2 and not found):
        return found
    raise CliError(
        f"the run asks {len(ids) or 1} question{'s' if len(ids) > 1 else ''}; say which is answered by each answer",
        hint=f"give --answer ID=JSON, where ID is one of {', '.join(ids)}" if ids else "give one answer",
        code=ExitCode.USAGE,
    )


def _not_sent(what: str, error: ValueError) -> CliError:
    return CliError(f"{what} can't be sent: {error}", hint="correct it and try again", code=ExitCode.USAGE)


def asked_for(asked: runs_pb2.InputRequest, terminal: Terminal) -> list[str]:
    """Asks for an answer, or for one to each interrupt where there are several; those left empty are asked again."""
    if len(asked.interrupts) < 2:
        return [prompt(terminal, render.question(asked))]
    given = [(each.interrupt_id, prompt(terminal, render.interrupt(each))) for each in asked.interrupts]
    return [f"{interrupt_id}={text}" for interrupt_id, text in given if text]


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


@asynccontextmanager
async def _within(timeout_s: float | None, late: CliError) -> AsyncIterator[asyncio.Timeout]:
    """Raises `late` once the time is over that the user gave."""
    try:
        async with asyncio.timeout(timeout_s) as limit:
            yield limit
    except TimeoutError as error:
        raise late from error


def _may_follow(question: questions_pb2.Question) -> bool:
    """Whether who answered may see the run as well: it is theirs, by whatever right they answered, or they see all."""
    given = question.answer
    theirs = given.right == runs_pb2.ANSWER_RIGHT_CALLER or given.subject == question.subject
    return theirs or given.role == ROLE_OPERATOR


def _left_s(limit: asyncio.Timeout) -> float | None:
    ends = limit.when()
    return None if ends is None else max(ends - asyncio.get_running_loop().time(), 0.0)


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
