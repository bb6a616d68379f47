"""What the nodes of a run ask and hear elsewhere, taken down where it comes in: of models, services and people.

Nothing is asked otherwise for it, and nothing that authorises a question is taken down. An execution that records has
a `AnswerRecording` of its own, which the tasks of its nodes find by context; a step that is saved takes along in its
transaction what was heard until then. So what a node heard in vain, before its replica died or it began to wait, is in
no recording.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import grpc
from google.protobuf.message import Message
from signalbox.v1 import recorded_answers_pb2, tools_pb2

from services.kit.errors import status_of
from services.kit.models.chain import Completes
from services.kit.models.completions import CompletionError
from services.runtime.calls.recorded_request import (
    ASKED_OF_MODEL,
    MOST_REQUEST_BYTES,
    kept_request,
    values_for_model,
    values_for_service,
)

MODEL, PERSON, THREAD = "model", "person", "thread"
CHAT, ANSWER, TURNS, LIST_TOOLS = "chat", "answer", "turns", "ListTools"
# A recording as large as this keeps answers alone, which a replay needs.
MOST_BYTES_WITH_REQUESTS = 4 * 1024 * 1024
Answer = recorded_answers_pb2.RecordedAnswer
Failure = recorded_answers_pb2.RecordedFailure


class AnswerRecording:
    """What one execution heard since its last step; `size_bytes` is what its run has recorded before."""

    def __init__(self, size_bytes: int = 0) -> None:
        self._heard: list[bytes] = []
        self._known: set[tuple[str, str]] = set()
        self._room = MOST_BYTES_WITH_REQUESTS - size_bytes

    def add(self, answer: Answer, request: Mapping[str, Any] | None = None) -> None:
        """Takes down an answer, and what was asked for it as far as there is room."""
        self._known.add((answer.source, answer.method))
        if request:
            room = min(MOST_REQUEST_BYTES, self._room - answer.ByteSize())
            kept, answer.request_bytes = kept_request(request, room)
            if kept is not None:
                answer.request.CopyFrom(kept)
        taken = answer.SerializeToString()
        self._room -= len(taken)
        self._heard.append(taken)

    def knows(self, source: str, method: str) -> bool:
        """Whether there was such an answer in this execution."""
        return (source, method) in self._known

    def take(self) -> list[bytes]:
        """Returns what was heard since this was last called."""
        heard, self._heard = self._heard, []
        return heard


_recording: ContextVar[AnswerRecording | None] = ContextVar("recording", default=None)


def current_recording() -> AnswerRecording | None:
    """Returns where what is heard is taken down; None where nothing is."""
    return _recording.get()


@contextmanager
def recording_into(recording: AnswerRecording | None) -> Iterator[None]:
    """Has what nodes hear inside the context taken down, also by tasks that are started in it."""
    token = _recording.set(recording)
    try:
        yield
    finally:
        _recording.reset(token)


def heard_before(source: str, method: str, response: Message) -> None:
    """Takes down an answer that is kept from an earlier call, unless this execution has had one."""
    recording = _recording.get()
    if recording and not recording.knows(source, method):
        recording.add(Answer(source=source, method=method, answer=response.SerializeToString()))


def answer_of_person(answer: Any) -> Answer:
    """Returns what a graph goes on with for a person's answer, or for none in time."""
    return Answer(source=PERSON, method=ANSWER, answer=json.dumps(answer).encode())


def answer_of_thread(turns: Sequence[tuple[bytes, bytes]]) -> Answer:
    """Returns the earlier runs of its thread that a run is told of."""
    told = [[base64.b64encode(part).decode() for part in turn] for turn in turns]
    return Answer(source=THREAD, method=TURNS, answer=json.dumps(told).encode())


def turns_of(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Returns the turns that `answer_of_thread` took down. Raises ValueError."""
    return [(base64.b64decode(asked), base64.b64decode(answered)) for asked, answered in json.loads(answer.answer)]


class RecordedModel:
    """A model whose answers are taken down, for executions that record."""

    def __init__(self, source: Completes) -> None:
        self._source = source

    async def create(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Asks for a completion. Raises CompletionError."""
        recording = _recording.get()
        if recording is None:
            return await self._source.create(payload)
        taken = Answer(source=MODEL, method=CHAT, asked=asked_of_model(payload))
        try:
            answer = await self._source.create(payload)
        except CompletionError as error:
            failure = Failure(kind=error.kind, message=str(error), retryable=error.retryable, said=error.said)
            taken.failure.CopyFrom(failure)
            raise
        else:
            taken.answer = json.dumps(answer).encode()
            return answer
        finally:
            if taken.answer or taken.HasField("failure"):
                recording.add(taken, values_for_model(payload))

    async def close(self) -> None:
        """Closes the connections."""
        await self._source.close()


class RecordingCalls(grpc.aio.UnaryUnaryClientInterceptor):
    """Takes down what a service answers, for executions that record."""

    def __init__(self, service: str) -> None:
        self._service = service

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Makes the call, and leaves its end to whoever made it."""
        call = await continuation(client_call_details, request)
        recording = _recording.get()
        if recording is not None:
            taken = Answer(
                source=self._service, method=method_of(client_call_details.method, request), asked=asked_of(request)
            )
            try:
                taken.answer = (await call).SerializeToString()
            except grpc.aio.AioRpcError as error:
                taken.failure.CopyFrom(_failure(error))
            recording.add(taken, values_for_service(request))
        return call


def method_of(path: str | bytes, request: Message) -> str:
    """Returns what was asked of a service: the method, of a tool's call with the tool."""
    method = (path.decode() if isinstance(path, bytes) else path).rpartition("/")[2]
    return f"{method} {request.tool}" if isinstance(request, tools_pb2.CallToolRequest) else method


def asked_of_model(payload: Mapping[str, Any]) -> str:
    """Returns a digest of what a model is asked."""
    asked = {name: payload.get(name) for name in ASKED_OF_MODEL}
    return _digest(json.dumps(asked, sort_keys=True, default=str).encode())


def asked_of(request: Message) -> str:
    """Returns a digest of what a service is asked, without the keys of calls, which are another execution's."""
    if isinstance(request, tools_pb2.CallToolRequest):
        request = request.arguments
    elif isinstance(request, tools_pb2.LookUpCallRequest):
        return ""
    return _digest(request.SerializeToString(deterministic=True))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _failure(error: grpc.aio.AioRpcError) -> Failure:
    status = status_of(error)
    return Failure(
        code=error.code().value[0],
        message=error.details() or "",
        status=status.SerializeToString() if status else b"",
    )
