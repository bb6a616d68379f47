"""Recording of decisions: one span, one log line, one counter and one ledger row each, in one place for every graph."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, TypedDict

from opentelemetry import trace
from prometheus_client import Counter

from services.kit.logs import get_logger
from services.kit.metrics import exemplar
from services.kit.names import (
    AGENT,
    ATTRIBUTE_PREFIX,
    DECISION_ID,
    DESTINATION,
    METRIC_PREFIX,
    NODE,
    POLICY_VERSION,
    ROUTER,
    RULE,
    TOOL_COUNT,
)
from services.kit.telemetry import trace_ids, tracer
from services.runtime.routing.table import Verdict

log = get_logger()
DECISIONS = Counter(
    METRIC_PREFIX + "routing_decisions_total",
    "Routing decisions, by agent, router, rule and destination.",
    ["agent", "router", "rule", "destination"],
)


class CallRecord(TypedDict):
    """A call that a node made."""

    kind: str
    name: str
    outcome: str
    elapsed_ms: float
    input_tokens: int
    output_tokens: int


class TriedRecord(TypedDict):
    """A rule that was tried and did not hold."""

    rule: str
    grounds: dict[str, Any]


class DecisionRecord(TypedDict):
    """A decision, as the ledger gets it."""

    decision_id: str
    router: str
    rule: str
    destination: str
    rejected_rules: list[TriedRecord]
    grounds: dict[str, Any]
    facts: dict[str, Any]
    policy_version: str
    trace_id: str
    span_id: str


class StepRecord(TypedDict):
    """A node that ran: how long, what it called, and the decision it led to. Travels in the channel `steps`."""

    node: str
    ended_at: float
    elapsed_ms: float
    calls: list[CallRecord]
    decision: DecisionRecord | None


@dataclass(frozen=True)
class Recorder:
    """Records the decisions of one agent."""

    agent: str

    def record(
        self, *, decision_id: str, router: str, policy_version: str, node: str, verdict: Verdict
    ) -> DecisionRecord:
        """Makes the span, the log line and the count of a decision, and returns what the ledger needs."""
        attributes = {
            ATTRIBUTE_PREFIX + AGENT: self.agent,
            ATTRIBUTE_PREFIX + DECISION_ID: decision_id,
            ATTRIBUTE_PREFIX + ROUTER: router,
            ATTRIBUTE_PREFIX + RULE: verdict.rule,
            ATTRIBUTE_PREFIX + DESTINATION: verdict.destination,
            ATTRIBUTE_PREFIX + NODE: node,
            ATTRIBUTE_PREFIX + POLICY_VERSION: policy_version,
            ATTRIBUTE_PREFIX + "rejected_rules": [tried.rule for tried in verdict.rejected],
            **{f"{ATTRIBUTE_PREFIX}fact.{name}": _attribute(value) for name, value in verdict.facts.items()},
        }
        span = tracer().start_span(f"route {router}", attributes=attributes)
        with trace.use_span(span, end_on_exit=True):
            DECISIONS.labels(self.agent, router, verdict.rule, verdict.destination).inc(1, exemplar())
            log.info(
                "routed",
                **{
                    ROUTER: router,
                    RULE: verdict.rule,
                    DESTINATION: verdict.destination,
                    DECISION_ID: decision_id,
                    TOOL_COUNT: verdict.facts.get(TOOL_COUNT, 0),
                    "grounds": verdict.grounds,
                },
            )
        trace_id, span_id = trace_ids(span)
        return DecisionRecord(
            decision_id=decision_id,
            router=router,
            rule=verdict.rule,
            destination=verdict.destination,
            rejected_rules=[TriedRecord(rule=tried.rule, grounds=tried.grounds) for tried in verdict.rejected],
            grounds=verdict.grounds,
            facts=verdict.facts,
            policy_version=policy_version,
            trace_id=trace_id,
            span_id=span_id,
        )


def step_record(node: str, started: float, calls: list[CallRecord], decision: DecisionRecord | None) -> StepRecord:
    """Returns the record of a node that started at `started` on the performance counter and has just ended."""
    elapsed_ms = (time.perf_counter() - started) * 1000
    return StepRecord(node=node, ended_at=time.time(), elapsed_ms=round(elapsed_ms, 3), calls=calls, decision=decision)


def _attribute(value: Any) -> str | bool | int | float:
    return value if isinstance(value, str | bool | int | float) else str(value)
