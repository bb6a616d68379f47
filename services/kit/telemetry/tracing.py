"""OpenTelemetry: set-up, and the context that follows a run across processes (W3C trace context and baggage)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache, lru_cache

from opentelemetry import baggage, context, propagate, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, get_current
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import CarrierT, Getter, Setter, default_getter, default_setter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.kit.telemetry.names import ATTRIBUTE_PREFIX, LINKED_BY

EXPORT_DELAY_MS = 500
FLUSH_TIMEOUT_MS = 5000
BAGGAGE_HEADER = "baggage"
BAGGAGE_REMEMBERED = 4096
# Characters and entries. The platform's own is shorter; what callers send beyond it is read, and fills no memory.
LONGEST_REMEMBERED, MOST_REMEMBERED = 512, 32


def start_telemetry(service: str, *, otlp_endpoint: str, sample_ratio: float = 1.0) -> TracerProvider:
    """Makes the process's tracer provider; without an endpoint, spans carry ids but record nothing.

    `sample_ratio` is the share of the traces that begin here; one that began elsewhere is recorded if it is there.
    """
    provider = TracerProvider(
        resource=Resource.create({"service.name": service, "service.namespace": "signalbox"}),
        sampler=ParentBased(TraceIdRatioBased(sample_ratio)) if otlp_endpoint else ALWAYS_OFF,
    )
    if otlp_endpoint:
        exporter = OTLPSpanExporter(endpoint=otlp_endpoint, insecure=otlp_endpoint.startswith("http://"))
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=EXPORT_DELAY_MS))
    trace.set_tracer_provider(provider)
    propagate.set_global_textmap(CompositePropagator([TraceContextTextMapPropagator(), _Baggage()]))
    return provider


class _Baggage(W3CBaggagePropagator):
    """Knows again the entries that it read and wrote: calls of a run carry the same ids, but for its nodes'."""

    def extract(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        getter: Getter[CarrierT] = default_getter,
    ) -> Context:
        header = next(iter(getter.get(carrier, BAGGAGE_HEADER) or ()), "")
        entries = header.split(",")
        if len(header) > LONGEST_REMEMBERED or len(entries) > MOST_REMEMBERED:
            return super().extract(carrier, context, getter)
        within = get_current() if context is None else context
        for name, value in itertools.chain.from_iterable(map(_read, entries)):
            within = baggage.set_baggage(name, value, within)
        return within

    def inject(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        setter: Setter[CarrierT] = default_setter,
    ) -> None:
        entries = baggage.get_all(context)
        length = sum(len(name) + len(str(value)) for name, value in entries.items())
        if length > LONGEST_REMEMBERED or len(entries) > MOST_REMEMBERED:
            super().inject(carrier, context, setter)
        elif header := ",".join(filter(None, map(_written, entries.items()))):
            setter.set(carrier, BAGGAGE_HEADER, header)


@lru_cache(maxsize=BAGGAGE_REMEMBERED)
def _read(entry: str) -> tuple[tuple[str, object], ...]:
    alone = W3CBaggagePropagator().extract({BAGGAGE_HEADER: entry.strip(" \t")}, Context())
    return tuple(baggage.get_all(alone).items())


@lru_cache(maxsize=BAGGAGE_REMEMBERED)
def _written(entry: tuple[str, object]) -> str:
    carrier: dict[str, str] = {}
    W3CBaggagePropagator().inject(carrier, baggage.set_baggage(*entry, Context()))
    return carrier.get(BAGGAGE_HEADER, "")


@cache
def tracer() -> trace.Tracer:
    """Returns the tracer of every span that the platform makes."""
    return trace.get_tracer("signalbox")


def carrying(ids: Mapping[str, str], parent: Context | None = None) -> Context:
    """Returns a context whose baggage also carries the ids, by field name."""
    carried = parent if parent is not None else context.get_current()
    for field, value in ids.items():
        carried = baggage.set_baggage(ATTRIBUTE_PREFIX + field, value, carried)
    return carried


def carried(field: str, within: Context | None = None) -> str:
    """Returns an id from baggage, or an empty string."""
    value = baggage.get_baggage(ATTRIBUTE_PREFIX + field, within)
    return value if isinstance(value, str) else ""


def trace_ids(span: trace.Span) -> tuple[str, str]:
    """Returns trace id and span id in hexadecimal, or empty strings when the span is not real."""
    ids = span.get_span_context()
    return (f"{ids.trace_id:032x}", f"{ids.span_id:016x}") if ids.is_valid else ("", "")


def trace_headers() -> dict[str, str]:
    """Returns the current trace and baggage as headers of an HTTP request."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def link_to(traceparent: str, by: str) -> None:
    """Links the current span to a run's trace; `by` is what ties them. One that is not recorded is left out."""
    other = trace.get_current_span(propagate.extract({"traceparent": traceparent}, Context())).get_span_context()
    if other.is_valid:
        trace.get_current_span().add_link(other, {ATTRIBUTE_PREFIX + LINKED_BY: by})
