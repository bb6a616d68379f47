"""The gateway as the HTTP API asks it: the public API, with the token that the request came with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
import jwt
from google.protobuf.message import Message
from signalbox.v1 import agents_pb2_grpc, questions_pb2_grpc, runs_pb2, runs_pb2_grpc, store_pb2_grpc, threads_pb2_grpc
from starlette.requests import Request

from services.http_api.errors import TokenRefused, from_rpc
from services.kit.identity.bearer import bearer_metadata
from services.kit.telemetry.names import AUTHORIZATION, BEARER

ResponseT = TypeVar("ResponseT", bound=Message)
API_KEY = "x-api-key"


class Gateway:
    """The stubs of the gateway's services."""

    def __init__(self, channel: grpc.aio.Channel, *, call_timeout_s: float) -> None:
        self.runs = runs_pb2_grpc.RunServiceStub(channel)
        self.agents = agents_pb2_grpc.AgentServiceStub(channel)
        self.questions = questions_pb2_grpc.QuestionServiceStub(channel)
        self.threads = threads_pb2_grpc.ThreadServiceStub(channel)
        self.store = store_pb2_grpc.StoreServiceStub(channel)
        self.call_timeout_s = call_timeout_s

    def caller(self, request: Request) -> Caller:
        """Returns the gateway as the caller of a request has it. Raises TokenRefused."""
        return Caller(self, token_of(request))


class Caller:
    """A caller's calls: whether the token is good, and what it allows, the gateway says. All raise ApiError."""

    def __init__(self, gateway: Gateway, token: str) -> None:
        self.stubs = gateway
        self._token = token
        self._metadata = (bearer_metadata(token),)

    @property
    def subject(self) -> str:
        """Who the token, which only the gateway checks, says that it is for; what is asked is narrowed to it."""
        try:
            return str(jwt.decode(self._token, options={"verify_signature": False})["sub"])
        except (jwt.InvalidTokenError, KeyError) as error:
            raise TokenRefused("the token is none of the issuer's", reason="TOKEN_INVALID") from error

    async def call(self, method: Callable[..., Awaitable[ResponseT]], request: Message) -> ResponseT:
        """Makes a call of one of the stubs."""
        with _told():
            return await method(request, metadata=self._metadata, timeout=self.stubs.call_timeout_s)

    async def watch(self, request: runs_pb2.WatchRunRequest) -> AsyncGenerator[runs_pb2.RunEvent, None]:
        """Yields events of a run, until it ends or awaits input."""
        with _told():
            call = self.stubs.runs.WatchRun(request, metadata=self._metadata)
            try:
                async for response in call:
                    yield response.event
            finally:
                call.cancel()


def token_of(request: Request) -> str:
    """Returns the token that a request comes with: a bearer token, or the same in the header that SDKs have for a key.

    Raises TokenRefused where there is none, or two that differ.
    """
    given = request.headers.getlist(AUTHORIZATION)
    schemes = [header.partition(" ") for header in given]
    tokens = [token.strip() for scheme, _, token in schemes if scheme.lower() == BEARER.lower()]
    tokens += [key.strip() for key in request.headers.getlist(API_KEY)]
    found = set(filter(None, tokens))
    if len(found) != 1 or not found.copy().pop().isascii():
        what = "two tokens that differ" if found else "no token"
        raise TokenRefused(
            f"the request has {what}; send your token as `Authorization: Bearer …`, or as the `api_key` of an SDK"
        )
    return found.pop()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from error
