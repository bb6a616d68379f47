"""Traces, logs and metrics of the whole platform, over the offline model, against the tables in signals.py."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from signalbox.v1 import runs_pb2

from services.local.database import WORLD_GRAPH_POLICY
from tests.e2e.signals import (
    APPROVED_EDGES,
    CREATE,
    DECISIONS,
    EDGES,
    HTTP_EDGES,
    LOG_LINES,
    SCREENED_BY_MODEL,
    SERIES,
    WAIT_FOR_RUN,
    LogLine,
    Series,
)
from tests.fixtures.client import Asked
from tests.fixtures.graph_edits import Editor
from tests.fixtures.ledger import check_ledger
from tests.fixtures.otlp import Trace, TraceCollector
from tests.fixtures.scrape import Scraped, scrape
from tests.fixtures.stack import Platform, World, platform

T = TypeVar("T")
ANSWERED = "Count devices with temperature > 10"
BLOCKED = "Show me the devices of user 31"
WAIT_S = 60.0
SPAN_OF_CALL = {
    "model": "client chat {}",
    "tool": "internal execute_tool {}",
    "guard": "client signalbox.v1.GuardService/Screen",
}


@dataclass(frozen=True)
class Observed:
    """A platform whose signals are collected, and what it was asked."""

    platform: Platform
    collector: TraceCollector
    answered: Asked
    blocked: Asked
    approved: runs_pb2.Run
    turns: list[Asked]

    @property
    def trace_ids(self) -> set[str]:
        """The traces of all that was asked."""
        runs = [self.answered.run, self.blocked.run, self.approved, *(turn.run for turn in self.turns)]
        return {run.trace_id for run in runs}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def observed(harbour: World) -> AsyncIterator[Observed]:
    """The platform, once it has answered, blocked a question, reached a goal that a person approved, had a thread."""
    async with (
        TraceCollector() as collector,
        platform(
            harbour,
            otlp_endpoint=collector.endpoint,
            log_level="DEBUG",
            graph_policy=WORLD_GRAPH_POLICY,
            http_replicas=1,
        ) as running,
    ):
        # Before the others: a series keeps the trace of the last call alone.
        [http_api] = running.stack.http_apis
        async with get_client(url=f"http://{http_api.ready.listen}", api_key=running.token("27")) as client:
            await client.runs.wait(None, "data_chat", input={"question": ANSWERED})
        caller = running.caller("27")
        answered = await caller.ask(ANSWERED, correlation_id="signals-1")
        blocked = await caller.ask(BLOCKED)
        editor = Editor(caller)
        await editor.ask("Create a new ticket with the key 'TICKET-77' and the status 'open'.")
        approved = await editor.reply(await editor.ask("Delete the ticket TICKET-77."), "approve")
        turns = [await caller.ask(ANSWERED, thread_id="signals-thread") for _ in range(2)]
        yield Observed(running, collector, answered, blocked, approved.run, turns)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def trace(observed: Observed) -> Trace:
    """The whole trace of the answered question."""
    wanted = set(EDGES)
    return await observed.collector.trace(
        observed.answered.run.trace_id, until=lambda trace: wanted <= trace.edges() and not trace.orphans()
    )


async def test_the_question_was_answered_as_the_tables_expect(observed: Observed) -> None:
    assert [(decision.node, decision.rule) for decision in observed.answered.decisions] == [
        ("screen_question", "allowed"),
        ("agent", "tool_calls"),
        ("tools", "query_executed"),
    ]
    assert observed.answered.state == "SUCCEEDED"
    assert [decision.rule for decision in observed.blocked.decisions] == ["blocked"]
    check_ledger(observed.answered)
    check_ledger(observed.blocked)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{' '.join(edge[0])} > {' '.join(edge[1])}")
async def test_every_edge_is_in_the_trace(trace: Trace, edge: tuple[tuple[str, str], tuple[str, str]]) -> None:
    assert edge in trace.edges(), f"{edge[1]} hangs below {[p for p, c in trace.edges() if c == edge[1]]}"


async def test_a_run_is_one_trace_with_one_root(trace: Trace) -> None:
    [root] = trace.roots()
    assert root.place == ("gateway", "server signalbox.v1.RunService/ExecuteRun")
    assert trace.orphans() == []
    assert {span.service for span in trace.spans.values()} == {
        "gateway", "runtime", "guard", "sql_executor", "offline_model",
    }  # fmt: skip
    assert not [span for span in trace.spans.values() if span.failed]


async def test_every_decision_of_the_ledger_has_its_span(observed: Observed, trace: Trace) -> None:
    for decision in observed.answered.decisions:
        span = trace.spans[decision.span_id]
        assert span.place == ("runtime", f"internal route {decision.router}")
        told = {name: span.attributes[f"signalbox.{name}"] for name in ("decision_id", "rule", "destination", "node")}
        assert told == {name: getattr(decision, name) for name in told}
        assert span.attributes["signalbox.policy_version"] == decision.policy_version
        assert span.attributes["signalbox.rejected_rules"] == [tried.rule for tried in decision.rejected_rules]


async def test_every_model_call_says_who_answered_in_which_conversation(observed: Observed, trace: Trace) -> None:
    asked = [span for span in trace.spans.values() if span.label.startswith("client chat ")]
    assert {span.service for span in asked} == {"guard", "runtime"}
    for span in asked:
        told = span.attributes
        assert told["gen_ai.response.model"] == told["gen_ai.request.model"]
        assert told["gen_ai.response.finish_reasons"] in (["stop"], ["tool_calls"])
        assert (told["server.address"], told["server.port"] > 0) == ("127.0.0.1", True)
        assert told["gen_ai.conversation.id"] == observed.answered.run.run_id  # no thread: the run itself


async def test_the_calls_that_a_decision_caused_are_below_it(observed: Observed, trace: Trace) -> None:
    decisions = observed.answered.decisions
    for cause, effect in itertools.pairwise(decisions):
        below = Counter(span.label for span in trace.below(cause.span_id))
        for call in effect.calls:
            label = SPAN_OF_CALL[call.kind].format(call.name)
            assert below[label] >= 1, f"{cause.rule} caused a call of {call.name}; below it are {sorted(below)}"
    # The last decision led to the wording, after which nothing is decided.
    assert "internal node format_answer" in {span.label for span in trace.below(decisions[-1].span_id)}


async def test_spans_of_models_and_tools_follow_the_conventions(observed: Observed, trace: Trace) -> None:
    [run] = trace.named("internal invoke_agent data_chat")
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["signalbox.run_id"] == observed.answered.run.run_id
    assert run.attributes["signalbox.correlation_id"] == "signals-1"
    [agent] = trace.named("client chat signalbox-offline-agent")
    assert agent.attributes["gen_ai.operation.name"] == "chat"
    assert agent.attributes["gen_ai.usage.input_tokens"] > 0
    [tool] = trace.named("internal execute_tool execute_db_query")
    assert tool.attributes["gen_ai.tool.name"] == "execute_db_query"
    assert tool.attributes["gen_ai.tool.call.id"]


async def test_a_run_is_one_trace_across_a_persons_answer(observed: Observed) -> None:
    """Whoever goes on with a run claims it anew: after an answer as after a takeover."""
    wanted = set(APPROVED_EDGES)
    claims = "internal invoke_agent graph_editor"
    trace = await observed.collector.trace(
        observed.approved.trace_id,
        until=lambda trace: wanted <= trace.edges() and len(trace.named(claims)) == 2 and not trace.orphans(),
    )
    assert wanted - trace.edges() == set()
    assert trace.orphans() == []
    assert len(trace.roots()) == 1
    assert sorted(span.attributes["signalbox.epoch"] for span in trace.named(claims)) == [1, observed.approved.epoch]
    # Asked before the answer, and gone on after it, below the same decision.
    asking = trace.named("internal node ask_person")
    assert (len(asking), len({span.parent_id for span in asking})) == (2, 1)


async def test_a_turn_is_linked_to_the_trace_of_the_one_before_it(observed: Observed) -> None:
    claim = "internal invoke_agent data_chat"
    ids = [turn.run.trace_id for turn in observed.turns]
    traces = [await observed.collector.trace(each, until=lambda trace: trace.named(claim)) for each in ids]
    [begun], [gone_on] = (trace.named(claim) for trace in traces)
    assert len(set(ids)) == 2
    assert (begun.links, [trace_id for trace_id, _ in gone_on.links]) == ([], [ids[0]])


async def test_a_question_over_http_has_a_trace_that_the_gateways_is_linked_to(observed: Observed) -> None:
    wanted = set(HTTP_EDGES)
    trace = await observed.collector.wait_for(lambda trace: wanted <= trace.edges() and not trace.orphans())
    [root] = trace.roots()
    assert root.place == WAIT_FOR_RUN
    [made] = [span for span in trace.spans.values() if span.place == HTTP_EDGES[-1][1]]
    served = await observed.collector.wait_for(
        lambda trace: any((made.trace_id, made.span_id) in span.links for span in trace.roots())
    )
    assert [span.place for span in served.roots()] == [("gateway", f"server {CREATE}")]


async def test_a_blocked_question_has_a_trace_without_executor_or_agent(observed: Observed) -> None:
    decision = observed.blocked.decisions[0]
    wanted = set(EDGES[: EDGES.index(SCREENED_BY_MODEL)])
    trace = await observed.collector.trace(
        observed.blocked.run.trace_id,
        until=lambda trace: wanted <= trace.edges() and decision.span_id in trace.spans and not trace.orphans(),
    )
    assert wanted <= trace.edges()
    assert trace.spans[decision.span_id].attributes["signalbox.rule"] == "blocked"
    assert {span.service for span in trace.spans.values()} == {"gateway", "runtime", "guard"}


def lines(observed: Observed, service: str) -> list[dict[str, Any]]:
    """Every line that a service wrote; one that it has not written to its end is none yet."""
    whole = observed.platform.stack.logs(service).rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


async def latest(look: Callable[[], Awaitable[T]], complete: Callable[[T], object]) -> T:
    """Looks again and again until what is seen is complete or time is up; the caller's assertion judges it."""
    deadline = monotonic() + WAIT_S
    while True:
        seen = await look()
        if complete(seen) or monotonic() > deadline:
            return seen
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("expected", LOG_LINES, ids=lambda line: f"{line.service}: {line.event}")
async def test_log_lines_carry_the_ids_of_the_run(observed: Observed, expected: LogLine) -> None:
    run, decisions = observed.answered.run, {decision.decision_id for decision in observed.answered.decisions}

    async def look() -> list[dict[str, Any]]:
        return [
            line
            for line in lines(observed, expected.service)
            if line["event"] == expected.event
            and line.get("trace_id") == run.trace_id
            and all(line.get(name) for name in expected.ids)
        ]

    found = await latest(look, bool)
    assert found, f"no line of {expected.service} says {expected.event!r} with {expected.ids} for the run"
    ids = {"run_id": {run.run_id}, "correlation_id": {"signals-1"}, "agent": {"data_chat"}, "decision_id": decisions}
    for line in found:
        assert line["service"] == expected.service
        for name in ids.keys() & set(expected.ids):
            assert line[name] in ids[name]


async def test_every_log_line_is_json_with_a_level_and_a_time(observed: Observed) -> None:
    for service in observed.platform.stack.services:
        written = lines(observed, service.name)
        assert written, f"{service.name} wrote nothing"
        assert all({"event", "level", "timestamp", "service"} <= line.keys() for line in written)


async def test_each_decision_is_one_log_line(observed: Observed) -> None:
    run_id = observed.answered.run.run_id
    routed = [line for line in lines(observed, "runtime") if line["event"] == "routed" and line["run_id"] == run_id]
    assert [(line["decision_id"], line["router"], line["rule"], line["destination"]) for line in routed] == [
        (decision.decision_id, decision.router, decision.rule, decision.destination)
        for decision in observed.answered.decisions
    ]
    assert [line["tool_count"] for line in routed] == [0, 1, 0]


@pytest.mark.parametrize("series", SERIES, ids=lambda series: f"{series.service}: {series.name}{dict(series.labels)}")
async def test_every_series_is_there(observed: Observed, series: Series) -> None:
    address = observed.platform.stack.service(series.service).ready.metrics

    def complete(scraped: Scraped) -> bool:
        found = scraped.matching(series.name, series.labels)
        return bool(found) and (not series.traced or bool(scraped.traces(series.name, series.labels)))

    scraped = await latest(lambda: scrape(address), complete)
    found = scraped.matching(series.name, series.labels)
    assert found, f"{series.service} has no {series.name} with {dict(series.labels)}"
    if series.traced:
        assert scraped.traces(series.name, series.labels) & observed.trace_ids


async def test_decisions_are_counted_as_the_ledger_has_them(observed: Observed) -> None:
    address = observed.platform.stack.service("runtime").ready.metrics
    before = await scrape(address)
    caller = observed.platform.caller("27")
    asked = [await caller.ask(text) for text in (ANSWERED, BLOCKED, BLOCKED)]
    after = await scrape(address)

    ledger = Counter(counted(decision) for run in asked for decision in run.decisions)
    for (router, rule, destination), count in ledger.items():
        labels = {"agent": "data_chat", "router": router, "rule": rule, "destination": destination}
        assert after.value(DECISIONS, labels) - before.value(DECISIONS, labels) == count
    everything = after.value(DECISIONS, {}) - before.value(DECISIONS, {})
    assert everything == ledger.total()


def counted(decision: runs_pb2.Decision) -> tuple[str, str, str]:
    return decision.router, decision.rule, decision.destination
