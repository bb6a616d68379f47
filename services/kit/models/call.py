"""What each call of a model leaves behind, whoever makes it: a span, its duration by purpose, and its tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from services.kit.models.completions import CompletionError
from services.kit.models.usage import Tokens, tokens_in
from services.kit.telemetry.metrics import MODEL_DURATION, MODEL_TOKENS, exemplar
from services.kit.telemetry.names import (
    GEN_AI_CACHED_TOKENS,
    GEN_AI_INPUT_TOKENS,
    GEN_AI_OPERATION,
    GEN_AI_OUTPUT_TOKENS,
    GEN_AI_PROVIDER,
    GEN_AI_REQUEST_MODEL,
)
from services.kit.telemetry.tracing import tracer


class StartedCall:
    """A call of a model while it is made."""

    def __init__(self, purpose: str, span: Span) -> None:
        self._purpose = purpose
        self._span = span

    def took(self, tokens: Tokens) -> None:
        """Counts the tokens that the answer says it took, and those of its input that the provider had in a cache."""
        self._span.set_attribute(GEN_AI_CACHED_TOKENS, tokens.cached)
        self._span.set_attribute(GEN_AI_INPUT_TOKENS, tokens.input)
        self._span.set_attribute(GEN_AI_OUTPUT_TOKENS, tokens.output)
        MODEL_TOKENS.labels(self._purpose, "input").inc(tokens.input)
        MODEL_TOKENS.labels(self._purpose, "output").inc(tokens.output)


@contextmanager
def model_call(operation: str, purpose: str, model: str) -> Iterator[StartedCall]:
    """Makes span and metrics of the call made inside the context; `operation` is one of the GenAI conventions.

    An exception is the call's failure, and the span says of which kind. What it then means to its caller is said
    outside of the context, so that an endpoint's own words stay out of traces.
    """
    attributes = {GEN_AI_OPERATION: operation, GEN_AI_PROVIDER: "openai", GEN_AI_REQUEST_MODEL: model}
    start = time.perf_counter()
    outcome = "error"
    with tracer().start_as_current_span(
        f"{operation} {model}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        started = StartedCall(purpose, span)
        try:
            yield started
            outcome = "ok"
        except Exception as error:
            if isinstance(error, CompletionError) and error.took:
                started.took(tokens_in(error.took))
            kind = error.kind if isinstance(error, CompletionError) else type(error).__name__
            span.set_status(Status(StatusCode.ERROR, kind))
            raise
        finally:
            MODEL_DURATION.labels(purpose, outcome).observe(time.perf_counter() - start, exemplar())
