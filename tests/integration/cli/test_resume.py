"""`signalbox resume`: whom it shows what comes of the answer, how long it waits, and how its prompt is left."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from signalbox.v1 import data_chat_pb2, questions_pb2, runs_pb2

from services.cli.client import Connection
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.questions import question_of, resume
from services.cli.terminal import Terminal
from services.local.settings import inherited_environment
from tests.integration.cli.fake_gateway import FakeGateway, serving

RUN_ID = "00000000-0000-7000-8000-000000000001"
RESULT = "You have three devices."
TIMEOUT_S = 60.0
QUESTION = questions_pb2.Question(
    run_id=RUN_ID,
    input_request=runs_pb2.InputRequest(input_request_id="q1", question="Delete the ticket?"),
    subject="ann",
    plan_hash="abc",
    state=questions_pb2.QUESTION_STATE_OPEN,
)
ENDED = runs_pb2.Run(
    run_id=RUN_ID,
    state=runs_pb2.RUN_STATE_SUCCEEDED,
    output=runs_pb2.RunOutput(data_chat=data_chat_pb2.DataChatOutput(answer=RESULT)),
)


def answered(subject: str, right: runs_pb2.AnswerRight, role: str = "") -> questions_pb2.AnswerQuestionResponse:
    """The question as somebody answered it."""
    question = questions_pb2.Question()
    question.CopyFrom(QUESTION)
    question.state = questions_pb2.QUESTION_STATE_ANSWERED
    question.answer.CopyFrom(
        questions_pb2.QuestionAnswer(
            answer="approve", subject=subject, right=right, role=role, answer_time=Timestamp(seconds=1)
        )
    )
    return questions_pb2.AnswerQuestionResponse(question=question)


def asking(**others: Message) -> FakeGateway:
    """A gateway of one run that asks."""
    event = runs_pb2.RunEvent(sequence=9, run_id=RUN_ID, run_ended=runs_pb2.RunEnded(run=ENDED))
    return FakeGateway(
        {
            "GetQuestion": questions_pb2.GetQuestionResponse(question=QUESTION),
            "WatchRun": runs_pb2.WatchRunResponse(event=event),
            "GetRun": runs_pb2.GetRunResponse(run=ENDED),
            **others,
        }
    )


async def answer(gateway: FakeGateway, timeout_s: float | None = None) -> tuple[ExitCode, str]:
    """Answers as the command does; returns the status and what was shown."""
    shown = io.StringIO()
    terminal = Terminal(out=Console(file=shown, width=200), err=Console(file=io.StringIO()))
    async with serving(gateway) as address, asyncio.timeout(TIMEOUT_S):
        connection = Connection(address, "token")
        status = await resume(connection, RUN_ID, ["approve"], terminal, asked=None, timeout_s=timeout_s)
    return status, shown.getvalue()


@pytest.mark.parametrize(
    ("taken", "follows"),
    [
        (answered("ann", runs_pb2.ANSWER_RIGHT_CALLER), True),
        (answered("ann", runs_pb2.ANSWER_RIGHT_ROLE, "approver"), True),
        (answered("olga", runs_pb2.ANSWER_RIGHT_ROLE, "operator"), True),
        (answered("bob", runs_pb2.ANSWER_RIGHT_ROLE, "approver"), False),
        (answered("", runs_pb2.ANSWER_RIGHT_ROLE, "approver"), False),  # of a release that does not tell who answered
    ],
)
async def test_a_run_is_followed_by_its_own_caller_by_whatever_right_they_answered(
    taken: questions_pb2.AnswerQuestionResponse, follows: bool
) -> None:
    gateway = asking(AnswerQuestion=taken)
    status, shown = await answer(gateway)
    assert (status, RESULT in shown, "has its answer and continues" in shown) == (ExitCode.OK, follows, not follows)
    assert ("WatchRun" in gateway.asked) is follows


async def test_an_answer_is_waited_for_no_longer_than_was_said() -> None:
    began = time.monotonic()
    with pytest.raises(CliError) as caught:
        await answer(asking(), timeout_s=0.5)
    assert time.monotonic() - began < 10
    assert caught.value.code == ExitCode.TIMED_OUT
    assert "did not take the answer within 0.5 s" in caught.value.message
    assert "goes on" not in caught.value.hint


async def test_a_question_is_waited_for_no_longer_than_was_said() -> None:
    async with serving(FakeGateway()) as address, asyncio.timeout(10):
        with pytest.raises(CliError, match=r"did not come within 0\.5 s") as caught:
            await question_of(Connection(address, "token"), RUN_ID, timeout_s=0.5)
    assert caught.value.code == ExitCode.TIMED_OUT


async def test_the_run_is_followed_for_the_time_that_the_answer_left() -> None:
    gateway = asking(AnswerQuestion=answered("ann", runs_pb2.ANSWER_RIGHT_CALLER))
    del gateway.answers["WatchRun"]
    with pytest.raises(CliError) as caught:
        await answer(gateway, timeout_s=2.0)
    assert caught.value.code == ExitCode.TIMED_OUT
    assert f"the time for run {RUN_ID} is over" in caught.value.message


@asynccontextmanager
async def at_the_prompt(gateway: FakeGateway) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """The command on a terminal, once it has asked for the answer; also that terminal, to type on."""
    ours, theirs = pty.openpty()
    async with serving(gateway) as address, asyncio.timeout(TIMEOUT_S):
        env = {**inherited_environment(), "SIGNALBOX_GATEWAY": address, "SIGNALBOX_TOKEN": "token", "COLUMNS": "200"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.cli", "resume", RUN_ID, env=env,
            stdin=theirs, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            said = await process.stdout.readuntil(b"> ")
            assert b"Delete the ticket?" in said
            yield process, ours
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(ours)
            os.close(theirs)


@pytest.mark.parametrize(("kind", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
async def test_the_prompt_is_left_at_once(kind: signal.Signals, status: int) -> None:
    gateway = asking()
    async with at_the_prompt(gateway) as (process, _):
        process.send_signal(kind)
        said, _ = await process.communicate()
    assert (process.returncode, b"Traceback" in said) == (status, False), said
    assert "AnswerQuestion" not in gateway.asked


@pytest.mark.parametrize(
    ("types", "status", "words"),
    [(b"leave it\n", ExitCode.OK, RESULT), (b"\x04", ExitCode.USAGE, "no answer was given")],
)
async def test_what_is_typed_is_the_answer_to_the_question_that_was_shown(
    types: bytes, status: ExitCode, words: str
) -> None:
    gateway = asking(AnswerQuestion=answered("ann", runs_pb2.ANSWER_RIGHT_CALLER))
    async with at_the_prompt(gateway) as (process, terminal):
        os.write(terminal, types)
        said, _ = await process.communicate()
    assert (process.returncode, words in said.decode()) == (status, True), said
    assert gateway.asked.count("GetQuestion") == 1
    if status == ExitCode.OK:
        given = questions_pb2.AnswerQuestionRequest.FromString(gateway.requests[gateway.asked.index("AnswerQuestion")])
        assert (given.input_request_id, given.plan_hash, given.answer) == ("q1", "abc", "leave it")
