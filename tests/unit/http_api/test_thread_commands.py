"""Commands to a thread: an answer is to the question that it names, whatever has become of the thread meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
from signalbox.v1 import agents_pb2, hosted_pb2, runs_pb2, threads_pb2
from starlette.requests import Request

from services.http_api.errors import Conflict
from services.http_api.event_stream import Streams
from services.http_api.json_bodies import BodyReader
from services.http_api.runs import RunRoutes
from services.http_api.thread_commands import ThreadCommands
from services.http_api.thread_stream import ThreadBells

TALK = agents_pb2.Agent(name="talk", input_type=hosted_pb2.GraphInput.DESCRIPTOR.full_name)


def asks(question: str) -> runs_pb2.Run:
    asked = runs_pb2.InputRequest(
        input_request_id=f"of-{question}", interrupts=[runs_pb2.Interrupt(interrupt_id=question)]
    )
    return runs_pb2.Run(run_id="r", agent="talk", thread_id="t", input_request=asked)


class FakeGateway:
    """A gateway with a thread whose run asks one thing after another, each as often as it is looked at."""

    def __init__(self, *questions: str) -> None:
        self.answers: list[runs_pb2.ResumeRunRequest] = []
        self._questions = list(questions)
        self.stubs = SimpleNamespace(
            agents=SimpleNamespace(ListAgents=lambda _: agents_pb2.ListAgentsResponse(agents=[TALK])),
            runs=SimpleNamespace(ResumeRun=self._resume),
            threads=SimpleNamespace(GetThread=self._thread, GetRunState=lambda _: threads_pb2.GetRunStateResponse()),
        )

    def caller(self, _request: Request) -> FakeGateway:
        return self

    async def call(self, method: Any, request: Any) -> Any:
        return method(request)

    def _thread(self, _request: Any) -> threads_pb2.GetThreadResponse:
        question = self._questions.pop(0) if len(self._questions) > 1 else self._questions[0]
        return threads_pb2.GetThreadResponse(runs=[asks(question)])

    def _resume(self, request: runs_pb2.ResumeRunRequest) -> runs_pb2.ResumeRunResponse:
        self.answers.append(request)
        if request.input_request_id != f"of-{self._questions[0]}":
            raise Conflict("another question is open")
        return runs_pb2.ResumeRunResponse(run=asks(self._questions[0]))


async def answered(gateway: FakeGateway, question: str) -> dict[str, Any]:
    async def receive() -> dict[str, Any]:
        params = {"interrupt_id": question, "response": {"approve": True}}
        return {"type": "http.request", "body": orjson.dumps({"id": 1, "method": "input.respond", "params": params})}

    asked: Any = gateway
    bodies = BodyReader(max_bytes=10_000, timeout_s=5)
    runs = RunRoutes(asked, bodies, Streams(most=2, heartbeat_s=5, send_timeout_s=5), recovery_s=5)
    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "headers": headers, "path_params": {"thread_id": "t"}}, receive)
    told = (await ThreadCommands(asked, bodies, runs, ThreadBells()).command(request)).body
    found: dict[str, Any] = orjson.loads(told)
    return found


async def test_an_answer_goes_to_the_question_that_it_names() -> None:
    gateway = FakeGateway("first")
    assert (await answered(gateway, "first"))["type"] == "success"
    [answer] = gateway.answers
    assert (answer.input_request_id, list(answer.answers), answer.token_chunks) == ("of-first", ["first"], True)


async def test_a_question_that_follows_while_an_answer_comes_is_not_answered_by_it() -> None:
    gateway = FakeGateway("first", "second")
    told = await answered(gateway, "first")
    assert (told["type"], told["error"]) == ("error", "no_such_interrupt")
    assert all(each.input_request_id == "of-first" for each in gateway.answers)
