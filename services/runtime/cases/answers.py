"""What nodes heard, given back to them in the place of models, services and people."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2

from services.kit.models.chain import Completes
from services.kit.models.completions import CompletionError
from services.runtime.calls.recording import CHAT, MODEL, Answer, asked_of, asked_of_model, method_of
from services.runtime.cases.errors import AnswerMissing

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Answers:
    """The answers of a recording, each given once: to the same question, else to the next one to the same source.

    What asks in other words, as a changed prompt does, so hears what was answered then. Once the replay has left the
    recorded way, only who asks the same gets an answer. The first question without one is `missing`: nodes may swallow
    the error.
    """

    def __init__(self, recorded: Iterable[Answer]) -> None:
        self._left = list(recorded)
        self.has_left_the_way = False
        self.missing: AnswerMissing | None = None

    def give(self, source: str, method: str, asked: str = "") -> Answer:
        """Returns the answer to a question. Raises AnswerMissing."""
        fitting = [each for each in self._left if (each.source, each.method) == (source, method)]
        same = [each for each in fitting if each.asked == asked]
        chosen = next(iter(same or (() if self.has_left_the_way else fitting)), None)
        if chosen is None:
            raise self.lack(f"the recording has no answer of {source} to {method}")
        # By identity: equal answers are given one after the other.
        self._left = [each for each in self._left if each is not chosen]
        return chosen

    def read(self, given: Answer) -> Any:
        """Returns what an answer that is JSON says. Raises AnswerMissing for one that is damaged."""
        try:
            return json.loads(given.answer)
        except (ValueError, RecursionError) as error:
            raise self.lack(f"an answer of the {given.source} is damaged") from error

    def lack(self, what: str) -> AnswerMissing:
        """Notes what is missing, if it is the first; returns the error."""
        error = AnswerMissing(what)
        self.missing = self.missing or error
        return error


class AnsweringModel:
    """Gives back what models answered; once the way was left, asks `model` where there is one."""

    def __init__(self, answers: Answers, model: Completes | None) -> None:
        self._answers = answers
        self._model = model

    async def create(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer that was recorded. Raises CompletionError where that was, AnswerMissing."""
        if self._model is not None and self._answers.has_left_the_way:
            return await self._model.create(payload)
        given = self._answers.give(MODEL, CHAT, asked_of_model(payload))
        if given.HasField("failure"):
            failed = given.failure
            raise CompletionError(failed.kind, failed.message, retryable=failed.retryable, said=failed.said)
        answer = self._answers.read(given)
        if not isinstance(answer, dict):
            raise self._answers.lack("an answer of the model is damaged")
        return answer

    async def close(self) -> None:
        """Leaves the model that was given to whoever made it."""


class AnsweringChannel:
    """Stands where a service's channel does, for stubs: gives back what the service answered."""

    def __init__(self, service: str, answers: Answers) -> None:
        self._service = service
        self._answers = answers

    def unary_unary(
        self, path: str, *, response_deserializer: Callable[[bytes], Message], **_others: Any
    ) -> Callable[..., Awaitable[Message]]:
        """Returns what makes the calls of a method."""

        async def call(request: Message, **_options: Any) -> Message:
            given = self._answers.give(self._service, method_of(path, request), asked_of(request))
            try:
                if not given.HasField("failure"):
                    return response_deserializer(given.answer)
                failed = _rpc_error(given)
            except DecodeError as error:
                raise self._answers.lack(f"an answer of the {self._service} is damaged") from error
            raise failed

        return call


def _rpc_error(given: Answer) -> grpc.aio.AioRpcError:
    failure = given.failure
    trailing = grpc.aio.Metadata(*([("grpc-status-details-bin", failure.status)] if failure.status else ()))
    status = status_pb2.Status.FromString(failure.status) if failure.status else None
    return grpc.aio.AioRpcError(
        _CODES.get(failure.code, grpc.StatusCode.UNKNOWN),
        grpc.aio.Metadata(),
        trailing,
        details=status.message if status else failure.message,
    )
