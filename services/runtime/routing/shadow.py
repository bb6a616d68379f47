"""Limits in shadow: what is decided is decided once more under limits that somebody tries, to no effect but a count.

Each decision is looked at by itself: what a run would have done after one that led elsewhere, nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import Counter
from pydantic import TypeAdapter, ValidationError
from signalbox_routing.facts import Record
from signalbox_routing.table import Router

from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero
from services.kit.telemetry.names import METRIC_PREFIX
from services.runtime.routing.graph import BEFORE_TABLES, AgentGraph
from services.runtime.routing.recorder import DecisionRecord

SHADOW_DECISIONS = Counter(
    METRIC_PREFIX + "shadow_decisions_total",
    "Decisions made once more under the limits in shadow, by agent, router and whether those lead elsewhere: same, "
    "other, or skipped, of facts that they can't be tried on.",
    ["agent", "router", "outcome"],
)
log = get_logger()
SAME, OTHER, SKIPPED = "same", "other", "skipped"


class Shadow:
    """The limits in shadow, by agent; those that have none are not looked at."""

    def __init__(self, graphs: Iterable[AgentGraph], policies: Mapping[str, Record]) -> None:
        self._routers: dict[str, tuple[Router[Any, Any], TypeAdapter[Any], Record]] = {}
        for graph in graphs:
            for router in graph.routers if graph.name in policies else ():
                self._routers[router.name] = router, TypeAdapter(router.facts_type), policies[graph.name]
                from_zero(SHADOW_DECISIONS, [graph.name], [router.name], [SAME, OTHER, SKIPPED])

    def count(self, agent: str, decisions: Iterable[DecisionRecord]) -> None:
        """Decides what an agent has decided, and counts how it comes out."""
        for decision in decisions:
            if decision["router"] in self._routers and decision["rule"] not in BEFORE_TABLES:
                SHADOW_DECISIONS.labels(agent, decision["router"], self._outcome(decision)).inc()

    def _outcome(self, decision: DecisionRecord) -> str:
        router, facts_type, policy = self._routers[decision["router"]]
        try:
            facts = facts_type.validate_python(decision["facts"])
        except ValidationError:
            return SKIPPED
        try:
            _, destination = router.destination_of(facts, policy)
        except Exception:  # to no effect: the run that this was decided for goes on
            log.exception("limits in shadow can't decide", router=router.name)
            return SKIPPED
        return SAME if destination == decision["destination"] else OTHER
