"""What a model's endpoint says in an error: its own words, for people, without keys and control characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

LONGEST = 500
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
# What looks like a key: `Bearer …`, `sk-…`, `api_key=…`, or a long word of letters and digits mixed.
_KEYS = re.compile(
    r"(?i)\bbearer\s+\S+"
    r"|\b(?:sk|pk|rk|key|hf|gsk|xai|AIza)[-_][\w*.-]{4,}"
    r"|\b(?:api[-_ ]?key|token|authorization|password|secret)\b\s*[:=]\s*[\"']?[^\s\"',;]+"
    # From a word's start alone: from within it, what is missed is missing too, and looking takes quadratic time.
    r"|(?<![\w*-])(?=[\w*-]*\d)(?=[\w*-]*[A-Za-z])[\w*-]{32,}"
)
HIDDEN = "[hidden]"
_CONTEXT_TOO_SHORT = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length|exceeds? the (?:maximum|limit|model)|request too large|http_413",
    re.IGNORECASE,
)


def says_too_long(message: str) -> bool:
    """Tells whether an endpoint's words are that a prompt is longer than its model's context."""
    return _CONTEXT_TOO_SHORT.search(message) is not None


def provider_words(content: bytes, *secrets: str) -> str:
    """Returns the message in an endpoint's error, or its text as it is, cut and cleaned of secrets and what hides."""
    text = _message(content)
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)
    text = _KEYS.sub(HIDDEN, _CONTROL.sub(" ", text)).strip()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _message(content: bytes) -> str:
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content.decode(errors="replace")
    found: Any = answer
    # OpenAI: {"error": {"message": …}}; others: {"error": "…"}, {"message": …}, {"detail": …}.
    while isinstance(found, Mapping):
        inner = next((found[name] for name in ("error", "message", "detail") if found.get(name)), None)
        if inner is None:
            break
        found = inner
    # All of it as it came: what was read may be nested deeper than anybody writes.
    return found if isinstance(found, str) else content.decode(errors="replace")
