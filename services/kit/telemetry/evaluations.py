"""Results of evaluations as log events, in the trace of what was evaluated; tracing backends show them as scores.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/#event-gen_aievaluationresult
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

from opentelemetry import _logs as logs
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from services.kit.telemetry.names import ATTRIBUTE_PREFIX

EVENT: Final = "gen_ai.evaluation.result"
NAME: Final = "gen_ai.evaluation.name"
SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
MAX_EXPLANATION_CHARACTERS = 1000
SCOPE = "signalbox"


def export_results(service: str, otlp_endpoint: str, stack: AsyncExitStack) -> None:
    """Sends the results of a service to an OTLP/gRPC endpoint while the stack is open; without one they go nowhere."""
    resource = Resource.create({"service.name": service, "service.namespace": "signalbox"})
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    if otlp_endpoint:
        exporter = OTLPLogExporter(endpoint=otlp_endpoint, insecure=otlp_endpoint.startswith("http://"))
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logs.set_logger_provider(provider)
    # In a thread: it waits for what is left to be sent.
    stack.push_async_callback(asyncio.to_thread, provider.shutdown)


def record_result(
    name: str,
    *,
    score: float | None,
    label: str,
    explanation: str,
    trace_id: str = "",
    ids: Mapping[str, str] | None = None,
) -> None:
    """Emits a result in the context of the current span, or in the trace of an id.

    score: None where there is none to give. ids: by field name (`telemetry/names.py`), what the result is of.
    """
    attributes: dict[str, str | float] = {
        NAME: name, SCORE_LABEL: str(label), EXPLANATION: explanation[:MAX_EXPLANATION_CHARACTERS],
        **{ATTRIBUTE_PREFIX + field: value for field, value in (ids or {}).items()},
    }  # fmt: skip
    if score is not None:
        attributes[SCORE_VALUE] = score
    logs.get_logger(SCOPE).emit(
        event_name=EVENT,
        severity_number=logs.SeverityNumber.INFO,
        attributes=attributes,
        context=_within(trace_id) if trace_id else None,
    )


def _within(trace_id: str) -> Context:
    """Returns the context of a trace, of no span that is known."""
    ids = trace.SpanContext(int(trace_id, 16), trace.INVALID_SPAN_ID, is_remote=True)
    return trace.set_span_in_context(trace.NonRecordingSpan(ids), Context())
