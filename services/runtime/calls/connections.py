"""What nodes call: the clients of services and models, one of each for all agents."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from functools import cache, cached_property
from typing import Self

import grpc

from services.kit.models.chain import Completes, ModelChain
from services.kit.models.completions import CompletionError
from services.kit.models.usage import tokens_in
from services.kit.wire.client import connect
from services.kit.wire.needs import looked_for
from services.runtime.calls.chat_model import ChatModel
from services.runtime.calls.evaluator_client import EvaluatorClient
from services.runtime.calls.guard_client import GuardClient
from services.runtime.calls.peers import EVALUATOR, GUARD, Executor, Peer
from services.runtime.calls.recording import RecordedModel, RecordingCalls
from services.runtime.calls.tool_client import ToolClient
from services.runtime.routing.calls import MODEL, note
from services.runtime.routing.recorder import CallRecord
from services.runtime.settings import CallSettings


class Connections:
    """The clients, each made when it is first asked for: breakers and pools belong to what is called, not to who calls.

    Asking for a service that was not connected raises KeyError; agents name what they need in their definitions.
    """

    def __init__(self, settings: CallSettings, channels: Mapping[str, grpc.aio.Channel], stack: AsyncExitStack) -> None:
        self.settings = settings
        self._channels = channels
        self._stack = stack
        self.tools = cache(self._tools)
        self.model = cache(self._model)
        self._source = cache(self._open_source)

    @classmethod
    async def open(cls, settings: CallSettings, peers: Iterable[Peer], stack: AsyncExitStack) -> Self:
        """Connects to the services for as long as the stack is open."""
        channels = {
            peer.name: await stack.enter_async_context(
                looked_for(peer.title, connect(settings.target_of(peer), settings, [RecordingCalls(peer.name)]))
            )
            for peer in dict.fromkeys(peers)
        }
        return cls(settings, channels, stack)

    @cached_property
    def guard(self) -> GuardClient:
        """The guard."""
        return GuardClient(self._channels[GUARD.name], timeout_s=self.settings.guard_timeout_s)

    @cached_property
    def evaluator(self) -> EvaluatorClient:
        """The evaluator."""
        return EvaluatorClient(self._channels[EVALUATOR.name], timeout_s=self.settings.evaluator_timeout_s)

    def _tools(self, executor: Executor) -> ToolClient:
        """Returns the tools of an executor."""
        channel, timeout_s = self._channels[executor.name], self.settings.tool_timeout_s
        return ToolClient(channel, service=executor.name, audience=executor.audience, timeout_s=timeout_s)

    def _model(self, role: str, retries: int | None = None) -> ChatModel:
        """Returns the model of a role; `retries` only where they are not the setting's."""
        given = self.settings.model_retries if retries is None else retries
        return ChatModel(self._source(role, given), self.settings.model_of(role).model)

    def _open_source(self, role: str, retries: int) -> Completes:
        return RecordedModel(self._open_chain(role, retries))

    def _open_chain(self, role: str, retries: int) -> ModelChain:
        settings = self.settings
        parameters = settings.model_of(role)
        chain = ModelChain(role, parameters, timeout_s=settings.model_timeout_s, retries=retries, noted=_note_failed)
        self._stack.push_async_callback(chain.close)
        return chain


def _note_failed(model: str, error: CompletionError, elapsed_s: float) -> None:
    """Notes the call of a model in whose place another is asked."""
    took = tokens_in(error.took)
    note(
        CallRecord(
            kind=MODEL,
            name=model,
            outcome=error.kind,
            elapsed_ms=round(elapsed_s * 1000, 3),
            input_tokens=took.input,
            output_tokens=took.output,
            service=MODEL,
            ended_at=round(time.time(), 6),
        )
    )
