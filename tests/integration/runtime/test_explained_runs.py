"""`ExplainRun` over gRPC, of runs that real replicas executed: what decisions caused and cost, and that it adds up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.kit.identity.caller import Caller
from services.kit.wire.server import Registration
from services.runtime.api.callers import Callers
from services.runtime.api.run_servicer import RunServicer
from services.runtime.calls.model_price import ModelPrice
from services.runtime.calls.prices import Prices
from services.runtime.engine.questions import Answer
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.run_counts import RunCounts
from tests.fixtures.replica import TOKENS_PER_COUNT, Counting, Replica, gateway_word, serving
from tests.integration.runtime.conftest import AGENT, StartReplica, ended, new_run
from tests.integration.runtime.test_waits import ORACLE, Outage

TIMEOUT_S = 60.0
Story = runs_pb2.RunExplanation


async def explained(
    replica: Replica, run: RunRecord, who: tuple[str, ...] = ("27",), prices: Prices | None = None, **page: Any
) -> runs_pb2.ExplainRunResponse:
    """The run as its caller has it explained."""

    def make(callers: Callers) -> Registration:
        agents = {"counting": replica.agent}
        servicer = RunServicer(
            replica.engine, replica.store, replica.pool, replica.directory(agents), callers, replica.pins, prices
        )
        return Registration(runs_pb2_grpc.add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService")

    async with serving(make) as channel:
        stub = runs_pb2_grpc.RunServiceStub(channel)
        request = runs_pb2.ExplainRunRequest(run_id=run.run_id, **page)
        response: runs_pb2.ExplainRunResponse = await stub.ExplainRun(request, metadata=gateway_word(*who))
        return response


async def finished(replica: Replica, run: RunRecord) -> RunRecord:
    async with asyncio.timeout(TIMEOUT_S):
        return await ended(replica, run)


def moment(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)


def check_sums(story: Story, run: RunRecord) -> None:
    """Checks that what is charged to rules is what the run has spent, and how long it took, to the last token."""
    charged = [*(charge.spend for charge in story.charges), story.uncharged]
    assert sum(each.model_calls for each in charged) == run.spend["model_calls"]
    assert sum(each.tool_calls for each in charged) == run.spend["tool_calls"]
    assert sum(each.token_usage.input_tokens for each in charged) == run.spend["input_tokens"]
    assert sum(each.token_usage.output_tokens for each in charged) == run.spend["output_tokens"]
    assert sum(each.wall_time_s for each in charged) == pytest.approx(run.spend["wall_time_s"], abs=1e-6)
    assert sum(charge.elapsed_ms for charge in story.charges) == pytest.approx(story.elapsed_ms, abs=1e-3)
    if run.ended_at:
        lasted = run.ended_at - run.created_at
        assert story.elapsed_ms == pytest.approx(lasted.total_seconds() * 1000, abs=1e-3)
    assert all(charge.elapsed_ms >= 0 for charge in story.charges)
    assert sum(step.elapsed_ms for step in story.route) / 1000 + story.uncharged.wall_time_s == pytest.approx(
        run.spend["wall_time_s"], abs=1e-6
    )


def is_nothing(spend: runs_pb2.Spend) -> bool:
    return (spend.model_calls, spend.tool_calls, spend.token_usage.total_tokens, spend.wall_time_s) == (0, 0, 0, 0)


async def test_charges_are_what_each_decision_led_to(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=3))
    done = await finished(replica, run)
    answer = await explained(replica, run)
    story = answer.run

    check_sums(story, done)
    assert is_nothing(story.uncharged)
    assert [(step.node, step.led_by, step.sequence) for step in story.route] == [
        ("count", 0, 1),
        ("count", 1, 2),
        ("count", 2, 3),
        ("report", 3, 0),
    ]
    assert [(charge.rule, list(charge.nodes)) for charge in story.charges] == [
        ("", ["count"]),
        ("go_on", ["count"]),
        ("go_on", ["count"]),
        ("done", ["report"]),
    ]
    assert [charge.spend.token_usage.total_tokens for charge in story.charges] == [sum(TOKENS_PER_COUNT)] * 3 + [0]
    assert [call.service for step in story.route for call in step.calls] == ["model"] * 3
    ends = [call.end_time for step in story.route for call in step.calls]
    assert all(end.ByteSize() for end in ends)
    assert ends == sorted(ends, key=moment)
    assert [claim.cause for claim in story.claims] == [runs_pb2.CLAIM_CAUSE_BEGIN]
    assert not story.questions
    assert not story.waits


async def test_costs_are_told_by_model_and_no_price_is_not_nothing(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=3))
    await finished(replica, run)
    given, made = (3 * tokens for tokens in TOKENS_PER_COUNT)
    [unpriced] = (await explained(replica, run)).run.costs.models
    assert (unpriced.model, unpriced.model_calls, unpriced.HasField("cost")) == ("counter", 3, False)
    prices = Prices({"counter": ModelPrice(input=2, output=10)}, "EUR")
    costs = (await explained(replica, run, prices=prices)).run.costs
    [priced] = costs.models
    assert (priced.token_usage.input_tokens, priced.token_usage.output_tokens, costs.currency) == (given, made, "EUR")
    assert priced.cost == pytest.approx((given * 2 + made * 10) / 1e6)
    # Of many runs the same is counted, from the steps.
    counts = RunCounts(replica.pool)
    for caller, tokens in ((Caller("27"), [(3, given, made)]), (Caller("stranger"), [])):
        for agent in (None, AGENT):
            counted = await counts.model_tokens(caller, run.created_at - timedelta(hours=1), agent)
            assert [(each.calls, each.given, each.made) for each in counted] == tokens


async def test_every_rule_of_the_table_is_told_and_how_far_it_was(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=2))
    await finished(replica, run)
    answer = await explained(replica, run)

    [first, last] = answer.explanations
    assert [rule.rule for rule in first.rules] == ["max_counts", "budget_exhausted", "done", "go_on"]
    assert not first.later_rules
    assert [rule.rule for rule in last.rules] == ["max_counts", "budget_exhausted", "done"]
    assert [(rule.rule, rule.missed_by) for rule in last.later_rules] == [("go_on", "")]
    near = {(each.router, each.rule): each for each in answer.run.breakers}
    counts = near["counting.route_after_count", "max_counts"]
    assert (counts.sequence, counts.missed_by, counts.used, counts.fired) == (2, "counted 2 of 50", 2 / 50, False)
    models = near["", "model_calls"]
    assert (models.missed_by, models.used, models.fired) == ("2 of 100 model calls", 0.02, False)
    used = [each.used for each in answer.run.breakers]
    assert used == sorted(used, reverse=True)


async def test_a_breaker_that_fired_comes_first(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=100))
    done = await finished(replica, run)
    story = (await explained(replica, run)).run

    assert done.stop_reason == "max_counts"
    first = story.breakers[0]
    assert (first.rule, first.sequence, first.used, first.fired, first.missed_by) == ("max_counts", 50, 1.0, True, "")
    assert not any(each.fired for each in story.breakers[1:])
    check_sums(story, done)


async def test_a_takeover_is_told_and_what_it_cost_still_adds_up(start_replica: StartReplica) -> None:
    counting = Counting()
    gate = counting.hold(2)
    first = await start_replica(counting)
    run, _ = await first.engine.create(new_run(until=3))
    async with asyncio.timeout(TIMEOUT_S):
        await counting.reached.wait()
    # It has to leave the node, whose work is lost; another replica does it again.
    await first.engine.drain()
    gate.set()
    second = await start_replica(Counting())
    done = await finished(second, run)
    story = (await explained(second, run)).run

    assert (done.state, done.epoch) == (RunState.SUCCEEDED, 2)
    assert [(claim.cause, claim.after_sequence) for claim in story.claims] == [
        (runs_pb2.CLAIM_CAUSE_BEGIN, 0),
        (runs_pb2.CLAIM_CAUSE_TAKEOVER, 1),
    ]
    check_sums(story, done)
    assert is_nothing(story.uncharged)


async def test_a_wait_is_charged_to_the_decision_that_led_to_it(start_replica: StartReplica) -> None:
    counting, outage = Counting(), Outage()
    counting.failures[2] = outage
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run())
    await outage.seen(2)
    waiting = (await explained(replica, run)).run
    assert [(wait.dependency, wait.cause, wait.led_by) for wait in waiting.waits[:1]] == [(ORACLE, "UNAVAILABLE", 1)]
    outage.back = True
    done = await finished(replica, run)
    story = (await explained(replica, run)).run

    check_sums(story, done)
    assert is_nothing(story.uncharged)
    waited = {charge.sequence: charge.waited_ms for charge in story.charges}
    assert waited == {0: 0, 1: pytest.approx(sum(_lasted(wait) for wait in story.waits)), 2: 0, 3: 0}
    assert 0 < waited[1] <= story.charges[1].elapsed_ms
    causes = [claim.cause for claim in story.claims]
    assert causes == [runs_pb2.CLAIM_CAUSE_BEGIN, *[runs_pb2.CLAIM_CAUSE_WAIT] * len(story.waits)]


def _lasted(wait: runs_pb2.DependencyWait) -> float:
    return (moment(wait.end_time) - moment(wait.begin_time)).total_seconds() * 1000


async def test_a_question_is_told_and_its_time_is_nobody_elses(start_replica: StartReplica) -> None:
    counting = Counting()
    counting.asks = {2}
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=2))
    asking = await finished(replica, run)
    assert asking.input_request
    before = (await explained(replica, run)).run
    [open_question] = before.questions
    assert (open_question.question, open_question.HasField("answer_time")) == ("Go on?", False)
    check_sums(before, asking)

    await replica.engine.answer(run.caller, Answer(run.run_id, asking.input_request.input_request_id, "yes"))
    async with asyncio.timeout(TIMEOUT_S):
        # A watch that begins before the run goes on ends with the question that has just been answered.
        while not (done := await ended(replica, run)).state.ended:
            pass
    story = (await explained(replica, run)).run
    check_sums(story, done)
    [question] = story.questions
    assert (question.question, question.led_by) == ("Go on?", 1)
    assert question.input_request_id == asking.input_request.input_request_id
    assert moment(question.answer_time) >= moment(question.ask_time)
    assert (question.answered_by, question.right, question.answer) == ("27", runs_pb2.ANSWER_RIGHT_CALLER, "yes")
    assert [charge.asked_ms for charge in story.charges] == [0, question.asked_ms, 0]
    assert 0 < question.asked_ms <= story.charges[1].elapsed_ms
    assert story.claims[-1].cause == runs_pb2.CLAIM_CAUSE_ANSWER


async def test_the_story_comes_with_the_first_page_only(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=5))
    done = await finished(replica, run)
    pages = [await explained(replica, run, page_size=2)]
    while pages[-1].next_page_token:
        pages.append(await explained(replica, run, page_size=2, page_token=pages[-1].next_page_token))

    assert [[each.sequence for each in page.explanations] for page in pages] == [[1, 2], [3, 4], [5]]
    assert [page.HasField("run") for page in pages] == [True, False, False]
    check_sums(pages[0].run, done)


async def test_explanations_too_large_for_one_message_come_on_more_pages(
    start_replica: StartReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=3))
    await finished(replica, run)
    monkeypatch.setattr("services.runtime.engine.pages.MOST_BYTES", 1)
    pages = [await explained(replica, run)]
    while pages[-1].next_page_token:
        pages.append(await explained(replica, run, page_token=pages[-1].next_page_token))

    assert [[each.sequence for each in page.explanations] for page in pages] == [[1], [2], [3]]


async def test_without_events_what_no_decision_tells_is_uncharged(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=2))
    done = await finished(replica, run)
    async with replica.pool.connection() as connection:
        await connection.execute("DELETE FROM platform.run_events WHERE run_id = %s", [run.run_id])
    story = (await explained(replica, run)).run

    check_sums(story, done)
    assert [step.node for step in story.route] == ["count", "count"]
    assert story.uncharged.wall_time_s > 0
    assert not story.claims


async def test_the_outline_decides_as_the_table_does(start_replica: StartReplica) -> None:
    replica = await start_replica()
    run, _ = await replica.engine.create(new_run(until=1))
    await finished(replica, run)
    outline = (await explained(replica, run)).run.agent

    assert (outline.entry, outline.graph_version) == ("count", replica.agent.outline.version)
    [count, report] = outline.nodes
    assert [(rule.rule, rule.is_breaker) for rule in count.rules] == [
        ("max_counts", True),
        ("budget_exhausted", True),
        ("done", False),
        ("go_on", False),
    ]
    assert (report.router, report.then) == ("", "__end__")
    compared = count.rules[0].when.comparison
    assert (compared.term.name, compared.operator) == ("counted", ">=")
    assert (compared.other_term.name, compared.other_term.is_limit) == ("max_counts", True)
    [limit] = outline.limits
    assert (limit.name, limit.value.number_value, limit.is_whole) == ("max_counts", 50, True)
    assert not limit.HasField("least")


async def test_who_lost_a_role_of_the_run_is_told_the_way_and_not_what_was_said(start_replica: StartReplica) -> None:
    counting = Counting()
    counting.asks = {2}
    replica = await start_replica(counting)
    run, _ = await replica.engine.create(new_run(until=2, caller=Caller("27", frozenset({"writer"}))))
    asking = await finished(replica, run)
    assert asking.input_request
    await replica.engine.answer(run.caller, Answer(run.run_id, asking.input_request.input_request_id, "yes"))

    told = {who: (await explained(replica, run, who)).run for who in (("27", "writer"), ("27",), ("olga", "operator"))}
    said = {
        who: [(each.question, each.answer, each.answered_by) for each in run.questions] for who, run in told.items()
    }
    assert said == {
        ("27", "writer"): [("Go on?", "yes", "27")],
        ("27",): [("", "", "27")],
        ("olga", "operator"): [("Go on?", "yes", "27")],
    }
