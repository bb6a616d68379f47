"""Answers that no language model gave: how the offline model says that, and how it is then said to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# The `system_fingerprint` of such an answer, and its label wherever it is shown.
OFFLINE_RULES: Final = "offline rules, no language model"


def is_by_offline_rules(answer: Mapping[str, Any]) -> bool:
    """Tells whether a completion, or what is kept of one, says that rules made it and no language model."""
    return answer.get("system_fingerprint") == OFFLINE_RULES
