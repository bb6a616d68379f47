"""A service behind the gateway as callers see it: its proto says all that it takes to forward its unary methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from services.gateway.entrance import Entrance, ServicerContext
from services.gateway.redaction import Redaction
from services.kit.identity.caller import Caller
from services.kit.wire.server import Registration

ResponseT = TypeVar("ResponseT", bound=Message)


class Forwarder(Protocol):
    """Makes unary calls of the service behind, with the gateway's word about who calls."""

    async def call(self, method: Callable[..., Awaitable[ResponseT]], request: Message, caller: Caller) -> ResponseT:
        """Makes a call."""


class ForwardedService:
    """Every method of a service: one that `own` has goes its own way, the others are forwarded as they come.

    With a `role`, only callers that have it get in; `tells_of_others` says that also other callers hear of a run.
    Answers leave as `redaction` has them.
    """

    def __init__(
        self,
        descriptor: ServiceDescriptor,
        stub: object,
        entrance: Entrance,
        forwarder: Forwarder,
        redaction: Redaction,
        *,
        own: object | None = None,
        role: str = "",
        tells_of_others: bool = False,
    ) -> None:
        self._descriptor = descriptor
        self._stub = stub
        self._entrance = entrance
        self._forwarder = forwarder
        self._redaction = redaction
        self._own = own
        self._role = role
        self._tells_of_others = tells_of_others

    def registration(self) -> Registration:
        """Returns what the server needs to serve it."""
        return Registration(ForwardedService.add_to_server, self, self._descriptor.full_name)

    def add_to_server(self, server: grpc.aio.Server) -> None:
        """Registers every method, with requests left in their wire form."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in self._descriptor.methods:
            streaming = method.server_streaming
            make = grpc.unary_stream_rpc_method_handler if streaming else grpc.unary_unary_rpc_method_handler
            behaviour = getattr(self._own, method.name, None) or self._forwarding(method)
            handlers[method.name] = make(behaviour, response_serializer=self._redaction.to_wire)
        name = self._descriptor.full_name
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        server.add_registered_method_handlers(name, handlers)

    def _forwarding(self, method: MethodDescriptor) -> Callable[[bytes, ServicerContext], Awaitable[Message]]:
        if method.server_streaming or method.client_streaming:
            raise TypeError(f"{method.full_name} streams; say how it is to be forwarded")
        request_type: type[Message] = GetMessageClass(method.input_type)
        call: Callable[..., Awaitable[Message]] = getattr(self._stub, method.name)

        async def forward(wire: bytes, servicer_context: ServicerContext) -> Message:
            caller, request = await self._entrance.accept(
                request_type, wire, servicer_context, role=self._role, tells_of_others=self._tells_of_others
            )
            async with self._entrance.passing_errors(servicer_context):
                return await self._forwarder.call(call, request, caller)

        return forward
