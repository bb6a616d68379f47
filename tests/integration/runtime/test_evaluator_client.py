"""What the runtime notes of an evaluation: the call of the evaluator, and the evaluator's own call of its model."""

from __future__ import annotations

import time

import grpc
import pytest
from signalbox.v1 import caller_pb2, evaluator_pb2, evaluator_pb2_grpc, sast_pb2

from services.kit.identity import Caller
from services.runtime.evaluator_client import EvaluatorClient
from services.runtime.routing.calls import collecting
from services.runtime.routing.state import spend_of
from services.runtime.run_context import RunContext

RUN = RunContext("r", "c", Caller("27"), 1, lambda _: "token")
CALL = evaluator_pb2.EvaluationModelCall(
    model="judge", token_usage=caller_pb2.TokenUsage(input_tokens=70, output_tokens=9), elapsed_ms=1234.5678
)


class _Evaluator(evaluator_pb2_grpc.EvaluatorServiceServicer):
    async def CritiqueVerdict(self, _request, _context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Approves."""
        return evaluator_pb2.CritiqueVerdictResponse(outcome=evaluator_pb2.CRITIQUE_OUTCOME_APPROVED, model_call=CALL)

    async def EvaluateInvestigation(self, _request, _context):  # type: ignore[no-untyped-def]  # noqa: N802
        """Finds it final."""
        return evaluator_pb2.EvaluateInvestigationResponse(is_final=True, model_call=CALL)


@pytest.mark.parametrize("method", ["critique_verdict", "evaluate_investigation"])
async def test_the_judges_model_call_is_noted_with_its_time(method: str) -> None:
    server = grpc.aio.server()
    evaluator_pb2_grpc.add_EvaluatorServiceServicer_to_server(_Evaluator(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    others = {"last_word": False} if method == "evaluate_investigation" else {}
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            client = EvaluatorClient(channel, timeout_s=60)
            with collecting() as calls:
                await getattr(client, method)(
                    RUN, sast_pb2.Finding(), sast_pb2.CodeSource(), evaluator_pb2.DraftVerdict(), [], **others
                )
    finally:
        await server.stop(None)
    asked, model = calls
    assert asked["kind"] == "evaluator"
    assert 0 < model.pop("ended_at") <= time.time()
    assert model == {
        "kind": "model", "name": "judge", "service": "evaluator", "outcome": "ok", "elapsed_ms": 1234.568,
        "input_tokens": 70, "output_tokens": 9,
    }  # fmt: skip
    assert spend_of(calls, 2.0)["wall_time_s"] == 2.0  # the time is the evaluator call's, and counts once
