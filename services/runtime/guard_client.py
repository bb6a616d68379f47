"""Asking the guard. Whatever goes wrong on the way is a block: the question is not let through unscreened."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.kit.identity import bearer_metadata
from services.kit.logs import get_logger
from services.runtime.routing.calls import OK, note, noting
from services.runtime.routing.recorder import CallRecord
from services.runtime.run_context import RunContext

log = get_logger()
UNAVAILABLE = "guard_unavailable"


@dataclass(frozen=True)
class Screening:
    """The guard's verdict on a question."""

    allowed: bool
    reason: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    model_elapsed_ms: float = 0.0


class GuardClient:
    """Asks the guard service."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float) -> None:
        self._stub = guard_pb2_grpc.GuardServiceStub(channel)
        self._timeout_s = timeout_s

    async def screen(self, run: RunContext, question: str) -> Screening:
        """Returns the verdict on a question; a guard that can't be asked blocks it."""
        try:
            with noting("guard", "screen") as call:
                answer = await self._stub.Screen(
                    guard_pb2.ScreenRequest(question=question),
                    timeout=self._timeout_s,
                    metadata=[bearer_metadata(run.token())],
                    wait_for_ready=True,  # a guard that is being replaced is waited for
                )
                call["outcome"] = answer.reason or "unspecified"
        except grpc.aio.AioRpcError as error:
            log.warning("guard not available; blocking", code=error.code().name, error=error.details())
            return Screening(allowed=False, reason=UNAVAILABLE)
        screening = Screening(
            answer.verdict == guard_pb2.SCREEN_VERDICT_ALLOW,
            answer.reason,
            answer.model,
            answer.token_usage.input_tokens,
            answer.token_usage.output_tokens,
            answer.model_elapsed_ms,
        )
        if screening.model:
            note(_model_call(screening))
        return screening


def _model_call(screening: Screening) -> CallRecord:
    """The guard's own call of its model, as the guard tells of it."""
    return CallRecord(
        kind="model",
        name=screening.model,
        outcome=UNAVAILABLE if screening.reason == UNAVAILABLE else OK,
        elapsed_ms=round(screening.model_elapsed_ms, 3),
        input_tokens=screening.input_tokens,
        output_tokens=screening.output_tokens,
    )
