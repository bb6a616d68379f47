"""Whose store the runs of hosted graphs have, and how much it may hold: a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from services.runtime.engine.retention_policy import DEFAULT

Scope = Literal["caller", "thread", "agent"]
DAY_S = 86_400


@dataclass(frozen=True)
class StorePolicy:
    """Whose store an agent's runs have, and what it may hold; an item goes `days` after its last write, 0 is never.

    `callers` is what callers may do with their own outside of runs; that of `default` counts.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    scope: Scope = "caller"
    most_items: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    most_value_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 65_536
    most_vectors: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    most_writes: Annotated[int, Field(ge=1, le=100_000)] = 1000
    days: Annotated[float, Field(ge=0)] = 365
    callers: Literal["nothing", "read", "write"] = "write"

    def lasts_s(self, ttl_s: float | None) -> float | None:
        """Returns the seconds that an item of a time to live lasts; None for ever."""
        lasts = min(ttl_s if ttl_s is not None else math.inf, self.days * DAY_S or math.inf)
        return None if math.isinf(lasts) else lasts


@dataclass(frozen=True)
class StorePolicies:
    """The policies of agents' stores, by agent and `default`."""

    by_agent: Mapping[str, StorePolicy] = field(default_factory=dict)

    def of(self, agent: str) -> StorePolicy:
        """Returns an agent's."""
        return self.by_agent.get(agent) or self.by_agent.get(DEFAULT) or StorePolicy()
