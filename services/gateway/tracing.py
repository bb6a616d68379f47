"""Whose trace a call belongs to: the platform's own, linked to the caller's, or the caller's where that is configured.

A caller that may say in which trace its call is recorded may also say that it is not, or put thousands into one.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import (
    CarrierT,
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_CALLERS_SPAN = context.create_key("signalbox-callers-span")


class LinkingPropagator(TextMapPropagator):
    """Takes a caller's trace as something to link to; passes the platform's own on as `inner` does."""

    def __init__(self, inner: TextMapPropagator) -> None:
        self._inner = inner
        self._callers = TraceContextTextMapPropagator()

    @property
    def fields(self) -> set[str]:
        """Header names of what is passed on."""
        return self._inner.fields

    def inject(
        self, carrier: CarrierT, context: Context | None = None, setter: Setter[CarrierT] = default_setter
    ) -> None:
        """Writes the present context, as `inner` does."""
        self._inner.inject(carrier, context, setter)

    def extract(
        self, carrier: CarrierT, context: Context | None = None, getter: Getter[CarrierT] = default_getter
    ) -> Context:
        """Returns a context with no span to be a child of; the caller's is kept aside."""
        callers = trace.get_current_span(self._callers.extract(carrier, Context(), getter)).get_span_context()
        return _with(context, callers)


def _with(within: Context | None, callers: Any) -> Context:
    return context.set_value(_CALLERS_SPAN, callers, within if within is not None else Context())


def link_callers() -> None:
    """Makes this process begin a trace of its own for every call that comes in."""
    inner = propagate.get_global_textmap()
    if not isinstance(inner, LinkingPropagator):
        propagate.set_global_textmap(LinkingPropagator(inner))


def link_to_caller() -> None:
    """Links the span of the call being served to its caller's, if there is one."""
    callers = context.get_value(_CALLERS_SPAN)
    if isinstance(callers, trace.SpanContext) and callers.is_valid:
        trace.get_current_span().add_link(callers)
