"""Spans of a process that sends none: they carry the ids that logs, decisions and other services' spans refer to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags

_RANDOM = TraceFlags(TraceFlags.RANDOM_TRACE_ID)


class UnrecordedSpans(TracerProvider):
    """Makes tracers whose spans are children of the current one and record nothing.

    The SDK's own, told never to sample, ask a sampler about each: twice the CPU for the same span, and there are 23 in
    the runtime for a run of `data_chat`.
    """

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        """Returns a tracer, whatever it is for."""
        return _IdsOnly(self)


class _IdsOnly(trace.Tracer):
    def __init__(self, provider: TracerProvider) -> None:
        self._ids = provider.id_generator

    def start_span(self, name: str, context: Context | None = None, *_: Any, **__: Any) -> Span:  # noqa: ARG002
        parent = trace.get_current_span(context).get_span_context()
        if parent.is_valid:
            trace_id, flags = parent.trace_id, TraceFlags(parent.trace_flags & ~TraceFlags.SAMPLED)
        else:
            trace_id, flags = self._ids.generate_trace_id(), _RANDOM
        return NonRecordingSpan(SpanContext(trace_id, self._ids.generate_span_id(), False, flags, parent.trace_state))

    def start_as_current_span(  # type: ignore[override]  # what the API says it returns has a private name
        self, name: str, context: Context | None = None, *_: Any, **__: Any
    ) -> AbstractContextManager[Span]:
        return trace.use_span(self.start_span(name, context))
