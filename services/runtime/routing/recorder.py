"""Recording of decisions: one span, one log line, one counter and one ledger row each, in one place for every graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from opentelemetry import trace
from prometheus_client import Counter
from signalbox_routing.table import Decision, State

from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import exemplar
from services.kit.telemetry.names import (
    AGENT,
    ATTRIBUTE_PREFIX,
    CORRELATION_ID,
    DECISION_ID,
    DESTINATION,
    METRIC_PREFIX,
    NODE,
    POLICY_VERSION,
    ROUTER,
    RULE,
    RUN_ID,
    TOOL_COUNT,
)
from services.kit.telemetry.tracing import trace_ids, tracer

log = get_logger()
DECISIONS = Counter(
    METRIC_PREFIX + "routing_decisions_total",
    "Routing decisions, by agent, router, rule and destination.",
    ["agent", "router", "rule", "destination"],
)


class CallRecord(TypedDict):
    """A call that a node made; `service` and `ended_at`, in seconds of the epoch, where they were known.

    What a call that `holds` was told need not be asked again by a later attempt at the node. `offline_rules`: of a
    model, that rules answered and no language model. `held_back`: of a wait, that the run made no call in vain itself.
    `prompts`: of a model, the digest of the prompts that the replica had, or the service that asked it. `estimated`: of
    a model, that its endpoint did not say how many tokens it took. `cached_tokens`: of a model, those of its input that
    its endpoint had cached. `at_least_once`: of a tool, that a call which is repeated may have its effect again.
    """

    kind: str
    name: str
    outcome: str
    elapsed_ms: float
    input_tokens: int
    output_tokens: int
    service: NotRequired[str]
    ended_at: NotRequired[float]
    holds: NotRequired[bool]
    offline_rules: NotRequired[bool]
    held_back: NotRequired[bool]
    prompts: NotRequired[str]
    estimated: NotRequired[bool]
    cached_tokens: NotRequired[int]
    at_least_once: NotRequired[bool]


class TriedRecord(TypedDict):
    """A rule that was tried and did not hold."""

    rule: str
    grounds: dict[str, Any]


class DestinationRecord(TypedDict):
    """A node that a decision led to, and how many tasks of it."""

    node: str
    count: int


class TestRecord(TypedDict):
    """A test in the source of a path function that was come to."""

    test: str
    line: int
    held: bool


class DecidedRecord(TypedDict):
    """How a decision was made that no table of ours made; `further` is one after the first of its node."""

    by: str
    destinations: list[DestinationRecord]
    source: NotRequired[str]
    tests: NotRequired[list[TestRecord]]
    returned_at: NotRequired[int]
    returned: NotRequired[str]
    remark: NotRequired[str]
    further: NotRequired[bool]


class LeadingDecision(TypedDict):
    """What a node is told of the decision that led to it."""

    decision_id: str
    rule: str
    trace_id: str
    span_id: str


class DecisionRecord(LeadingDecision):
    """A decision, as the ledger gets it."""

    router: str
    destination: str
    rejected_rules: list[TriedRecord]
    grounds: dict[str, Any]
    facts: dict[str, Any]
    policy_version: str
    decided: NotRequired[DecidedRecord]


class ItemWrite(TypedDict):
    """A write of a node to its store: a value, as JSON, or None to delete it; or only its time anew, to `refresh` it.

    `namespace` is its labels, joined with points; `vectors`, by field and made by `embed`, are what it is found by.
    Writes of one claim are numbered in the order that they were made in.
    """

    number: int
    namespace: str
    key: str
    value: bytes | None
    ttl_s: float | None
    refresh: bool
    embed: NotRequired[str]
    vectors: NotRequired[dict[str, list[float]]]


class StepRecord(TypedDict):
    """A node that ran: how long, what it called, and the decision it led to. Travels in the channel `steps`.

    One that `concludes` leads nowhere. `task` is LangGraph's id of it, of a hosted graph; `stored`, what it keeps;
    `written`, what it wrote to its stream writer, in parts of events; `called`, what callbacks told until it was kept;
    `cached`, whether it is from the graph's cache.
    """

    node: str
    ended_at: float
    elapsed_ms: float
    calls: list[CallRecord]
    decision: DecisionRecord | None
    concludes: NotRequired[bool]
    task: NotRequired[str]
    stored: NotRequired[list[ItemWrite]]
    written: NotRequired[list[dict[str, Any]]]
    called: NotRequired[list[dict[str, Any]]]
    cached: NotRequired[bool]


@dataclass(frozen=True)
class DecisionRecorder:
    """Records the decisions of one agent."""

    agent: str
    ids: Mapping[str, Callable[[State], str]] = field(default_factory=dict)

    def record(
        self, *, decision_id: str, router: str, policy_version: str, node: str, decision: Decision, state: State
    ) -> DecisionRecord:
        """Makes the span, the log line and the count of a decision, and returns what the ledger needs.

        The log line and the span carry the agent's own ids, as the state that the node began with has them.
        """
        ids = {name: of(state) for name, of in self.ids.items()}
        attributes = {
            **{ATTRIBUTE_PREFIX + name: value for name, value in ids.items()},
            ATTRIBUTE_PREFIX + AGENT: self.agent,
            **{ATTRIBUTE_PREFIX + name: state[name] for name in (RUN_ID, CORRELATION_ID) if state.get(name)},
            ATTRIBUTE_PREFIX + DECISION_ID: decision_id,
            ATTRIBUTE_PREFIX + ROUTER: router,
            ATTRIBUTE_PREFIX + RULE: decision.rule,
            ATTRIBUTE_PREFIX + DESTINATION: decision.destination,
            ATTRIBUTE_PREFIX + NODE: node,
            ATTRIBUTE_PREFIX + POLICY_VERSION: policy_version,
            ATTRIBUTE_PREFIX + "rejected_rules": [tried.rule for tried in decision.rejected],
            **{f"{ATTRIBUTE_PREFIX}fact.{name}": _attribute(value) for name, value in decision.facts.items()},
        }
        span = tracer().start_span(f"route {router}", attributes=attributes)
        with trace.use_span(span, end_on_exit=True):
            DECISIONS.labels(self.agent, router, decision.rule, decision.destination).inc(1, exemplar())
            log.info(
                "routed",
                **{
                    ROUTER: router,
                    RULE: decision.rule,
                    DESTINATION: decision.destination,
                    DECISION_ID: decision_id,
                    TOOL_COUNT: decision.facts.get(TOOL_COUNT, 0),
                    "grounds": decision.grounds,
                    **ids,
                },
            )
        trace_id, span_id = trace_ids(span)
        return DecisionRecord(
            decision_id=decision_id,
            router=router,
            rule=decision.rule,
            destination=decision.destination,
            rejected_rules=[TriedRecord(rule=tried.rule, grounds=tried.grounds) for tried in decision.rejected],
            grounds=decision.grounds,
            facts=decision.facts,
            policy_version=policy_version,
            trace_id=trace_id,
            span_id=span_id,
        )


def step_record(
    node: str, elapsed_s: float, calls: list[CallRecord], decision: DecisionRecord | None, *, concludes: bool
) -> StepRecord:
    """Returns the record of a node that has just ended, after `elapsed_s`, waits included."""
    return StepRecord(
        node=node,
        ended_at=time.time(),
        elapsed_ms=round(elapsed_s * 1000, 3),
        calls=calls,
        decision=decision,
        concludes=concludes,
    )


def _attribute(value: Any) -> str | bool | int | float:
    return value if isinstance(value, str | bool | int | float) else str(value)


def last_decision(steps: Sequence[StepRecord]) -> DecisionRecord | None:
    """Returns the decision that the last step led to; a node that no router follows makes none."""
    return next((step["decision"] for step in reversed(steps) if step["decision"]), None)
