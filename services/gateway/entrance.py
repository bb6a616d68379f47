"""What every call passes on its way in: who calls, whether they may, how much they may, and what they ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from grpc_status import rpc_status
from opentelemetry import baggage, context

from services.gateway.authentication import Authenticator
from services.gateway.errors import RoleMissing
from services.gateway.metrics import OPEN_STREAMS
from services.gateway.quota import Quotas
from services.gateway.redaction import Redaction
from services.gateway.tracing import link_to_caller
from services.gateway.validation import RequestReader
from services.kit.errors import status_of
from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR

RequestT = TypeVar("RequestT", bound=Message)
ServicerContext = grpc.aio.ServicerContext[Any, Any]


class Entrance:
    """Takes requests in their wire form, so that what can't be parsed is refused like anything else that is wrong."""

    def __init__(
        self, authenticator: Authenticator, quotas: Quotas, reader: RequestReader, redaction: Redaction
    ) -> None:
        self._authenticator = authenticator
        self._quotas = quotas
        self._reader = reader
        self._redaction = redaction

    async def accept(
        self,
        request_type: type[RequestT],
        wire: bytes,
        servicer_context: ServicerContext,
        *,
        role: str = "",
        tells_of_others: bool = False,
    ) -> tuple[Caller, RequestT]:
        """Returns the caller and the request; `tells_of_others` says that any caller may hear of another's run.

        Raises TokenInvalid, TooManyRequests, RoleMissing, InvalidRequest.
        """
        link_to_caller()
        # Ids that come from outside are not believed: only the platform says which run a call belongs to.
        context.attach(baggage.clear())
        caller = await self._authenticator.authenticate(bearer_token(servicer_context.invocation_metadata()))
        self._redaction.begin(sees_own_only=not tells_of_others and ROLE_OPERATOR not in caller.roles)
        self._quotas.spend_request(caller.subject)
        if role and role not in caller.roles:
            raise RoleMissing(f"this needs the role {role!r}", metadata={"role": role})
        return caller, self._reader.read(request_type, wire)

    @asynccontextmanager
    async def open_stream(
        self,
        method: str,
        caller: Caller,
        events: AsyncGenerator[Any, None],
        servicer_context: ServicerContext,
    ) -> AsyncIterator[None]:
        """Holds a stream open; the runtime's is closed with it. Raises TooManyStreams."""
        with self._quotas.stream(caller.subject), OPEN_STREAMS.labels(method).track_inprogress():
            # Closed here, so that the runtime's stream ends with the caller's and not when the collector finds it.
            async with aclosing(events), self.passing_errors(servicer_context):
                yield

    @asynccontextmanager
    async def passing_errors(self, servicer_context: ServicerContext) -> AsyncIterator[None]:
        """Passes on an error of the runtime with its code and details."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            status = status_of(error)
            if status is None:
                await servicer_context.abort(error.code(), f"the runtime did not answer: {error.code().name}")
            else:
                await servicer_context.abort_with_status(rpc_status.to_status(self._redaction.masked(status)))
