"""Results of evaluations as log events, in the trace of what was evaluated; backends show them as scores.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/#event-gen_aievaluationresult
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from opentelemetry import _logs as logs
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

EVENT: Final = "gen_ai.evaluation.result"
NAME: Final = "gen_ai.evaluation.name"
SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
MAX_EXPLANATION_CHARACTERS = 1000
SCOPE = "signalbox"


def export_results(otlp_endpoint: str, stack: AsyncExitStack) -> None:
    """Sends results to an OTLP/gRPC endpoint for as long as the stack is open; without one they go nowhere."""
    resource = Resource.create({"service.name": "evaluator", "service.namespace": "signalbox"})
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    if otlp_endpoint:
        exporter = OTLPLogExporter(endpoint=otlp_endpoint, insecure=otlp_endpoint.startswith("http://"))
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logs.set_logger_provider(provider)
    # In a thread: it waits for what is left to be sent.
    stack.push_async_callback(asyncio.to_thread, provider.shutdown)


def record_result(name: str, *, score: float, label: str, explanation: str) -> None:
    """Emits a result, in the context of the current span."""
    logs.get_logger(SCOPE).emit(
        event_name=EVENT,
        severity_number=logs.SeverityNumber.INFO,
        attributes={
            NAME: name,
            SCORE_VALUE: score,
            SCORE_LABEL: str(label),
            EXPLANATION: explanation[:MAX_EXPLANATION_CHARACTERS],
        },
    )
