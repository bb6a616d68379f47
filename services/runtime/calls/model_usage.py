"""Noting what services paid their own models, as they tell of it: the run that asked them is charged with it."""

from __future__ import annotations

import time

from services.kit.errors import ErrorDetail
from services.kit.models.usage import ModelUsage, usage_told
from services.runtime.routing.calls import MODEL, OK, note
from services.runtime.routing.recorder import CallRecord

# A service asks its model a few times for one answer of its own.
MOST_CALLS = 100


def note_usage(service: str, usage: ModelUsage, outcome: str = OK) -> None:
    """Notes a service's calls of its model. Of several only the sum is known, and each is noted with an equal share."""
    calls = min(max(1, usage.calls), MOST_CALLS)
    ended_at = round(time.time(), 6)
    for number in range(calls):
        call = CallRecord(
            kind=MODEL,
            name=usage.model,
            outcome=outcome,
            elapsed_ms=round(usage.elapsed_ms / calls, 3),
            input_tokens=_share(usage.input_tokens, number, calls),
            output_tokens=_share(usage.output_tokens, number, calls),
            service=service,
            ended_at=ended_at,
            offline_rules=usage.offline_rules,
        )
        if usage.cached_tokens:
            call["cached_tokens"] = _share(usage.cached_tokens, number, calls)
        if usage.prompts:
            call["prompts"] = usage.prompts
        note(call)


def note_usage_in_vain(service: str, detail: ErrorDetail) -> None:
    """Notes what a call that failed had its service pay its model by then, where the error says so."""
    if usage := usage_told(detail.metadata):
        note_usage(service, usage, detail.metadata.get("cause") or detail.reason)


def _share(total: int, number: int, of: int) -> int:
    """Returns a part of a total: as large as the others, but for a remainder, and no token is lost."""
    return total * (number + 1) // of - total * number // of
