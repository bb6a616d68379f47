"""What the span of a model call says beyond its name, by the GenAI conventions; set where the request is made.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import Span

from services.kit.telemetry.names import (
    CONVERSATION_ID,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_FINISH_REASONS,
    GEN_AI_RESPONSE_ID,
    GEN_AI_RESPONSE_MODEL,
    SERVER_ADDRESS,
    SERVER_PORT,
)
from services.kit.telemetry.tracing import carried


def describe_request(span: Span, base_url: str) -> None:
    """Says which server is asked, and in which conversation: the thread, or the run outside of one."""
    server = urlsplit(base_url)
    span.set_attribute(SERVER_ADDRESS, server.hostname or "")
    span.set_attribute(SERVER_PORT, server.port or (443 if server.scheme == "https" else 80))
    if conversation_id := carried(CONVERSATION_ID):
        span.set_attribute(GEN_AI_CONVERSATION_ID, conversation_id)


def describe_response(span: Span, answer: Mapping[str, Any]) -> None:
    """Says which model answered, and why each of its answers ended; what the answer lacks is left out."""
    for name, value in ((GEN_AI_RESPONSE_MODEL, answer.get("model")), (GEN_AI_RESPONSE_ID, answer.get("id"))):
        if isinstance(value, str) and value:
            span.set_attribute(name, value)
    choices = answer.get("choices")
    reasons = [choice.get("finish_reason") for choice in choices or () if isinstance(choice, dict)]
    span.set_attribute(GEN_AI_FINISH_REASONS, [reason for reason in reasons if isinstance(reason, str)])
