"""The roles that agents have models in, for programs that may not import the runtime.

What each agent's definition names is the source: a contract test holds this to be the same.
"""

from __future__ import annotations

from typing import Final

# The role whose model takes every role that has none of its own.
DEFAULT_ROLE: Final = "agent"
ROLES: Final = (
    DEFAULT_ROLE, "format", "triage", "research", "analysis", "parse", "plan", "answer", "incident",
)  # fmt: skip
# The roles of services of their own, which may be set beside those of agents.
OF_SERVICES: Final = ("guard", "evaluator")
CALL_TOOLS: Final = frozenset({DEFAULT_ROLE, "triage", "research", "incident"})
RETURN_STRUCTURED: Final = frozenset({"triage", "analysis", "parse", "plan", "incident"})
