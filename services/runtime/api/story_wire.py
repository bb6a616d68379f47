"""From a run's story to the proto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from signalbox.v1 import caller_pb2, costs_pb2, runs_pb2

from services.runtime.api.wire import calls_proto, right_of, spend_proto, timestamp_proto
from services.runtime.calls.prices import ModelTokens, Prices
from services.runtime.engine.records import RunRecord
from services.runtime.engine.story import Charge, ClaimCause, DependencyWait, EndedNode, Question, RunClaim, RunStory
from services.runtime.routing.explaining import Nearness

_CAUSES: Mapping[ClaimCause, runs_pb2.ClaimCause] = {
    ClaimCause.BEGIN: runs_pb2.CLAIM_CAUSE_BEGIN,
    ClaimCause.ANSWER: runs_pb2.CLAIM_CAUSE_ANSWER,
    ClaimCause.WAIT: runs_pb2.CLAIM_CAUSE_WAIT,
    ClaimCause.TAKEOVER: runs_pb2.CLAIM_CAUSE_TAKEOVER,
}
_BUDGET_WORDS = {"model_calls": "model calls", "tool_calls": "tool calls", "tokens": "tokens", "wall_time_s": "seconds"}
BUDGET_EXHAUSTED = "budget_exhausted"


def story_proto(story: RunStory, breakers: Sequence[tuple[str, int, Nearness]]) -> runs_pb2.RunExplanation:
    """Returns a run's story; `breakers` are router, sequence and nearness at every decision."""
    near: list[runs_pb2.Breaker] = [*_nearest(breakers), *_budget(story.run)]
    near.sort(key=_place)
    return runs_pb2.RunExplanation(
        route=map(_step, story.route),
        charges=map(_charge, story.charges),
        spend=spend_proto(story.run.spend),
        uncharged=spend_proto(story.uncharged),
        elapsed_ms=_ms(story.elapsed),
        breakers=near,
        questions=map(_question, story.questions),
        waits=map(_wait, story.waits),
        claims=map(_claim, story.claims),
        read_time=timestamp_proto(story.read_at),
    )


def costs_proto(tokens: Sequence[ModelTokens], prices: Prices) -> costs_pb2.Costs:
    """Returns what models were asked for, and what that costs."""
    models = [
        costs_pb2.ModelCost(
            model=each.model,
            model_calls=each.calls,
            token_usage=caller_pb2.TokenUsage(
                input_tokens=each.given, output_tokens=each.made, total_tokens=each.given + each.made
            ),
            cached_tokens=each.cached,
            cost=prices.cost(each),
        )
        for each in tokens
    ]
    return costs_pb2.Costs(models=models, currency=prices.currency)


def _place(breaker: runs_pb2.Breaker) -> tuple[bool, float, str]:
    return not breaker.fired, -breaker.used, breaker.rule


def _nearest(breakers: Sequence[tuple[str, int, Nearness]]) -> list[runs_pb2.Breaker]:
    """Returns each breaker where the run came nearest to it: where it fired, or the first decision of the nearest."""
    nearest: dict[tuple[str, str], tuple[float, int, Nearness]] = {}
    for router, sequence, near in breakers:
        key = router, near.rule
        how_near = 2.0 if near.fired else -1.0 if near.used is None else near.used
        if key not in nearest or how_near > nearest[key][0]:
            nearest[key] = how_near, sequence, near
    return [
        runs_pb2.Breaker(
            router=router,
            rule=rule,
            sequence=sequence,
            missed_by=near.missed_by,
            used=near.used,
            fired=near.fired,
        )
        for (router, rule), (_, sequence, near) in nearest.items()
    ]


def _budget(run: RunRecord) -> list[runs_pb2.Breaker]:
    budget: Mapping[str, Any] = run.budget
    spent: Mapping[str, Any] = {**run.spend, "tokens": run.spend["input_tokens"] + run.spend["output_tokens"]}
    parts = []
    for part, words in _BUDGET_WORDS.items():
        limit, used = float(budget[part]), float(spent[part])
        if limit > 0:
            over = used >= limit
            parts.append(
                runs_pb2.Breaker(
                    rule=part,
                    missed_by="" if over else f"{_said(used)} of {_said(limit)} {words}",
                    used=min(used / limit, 1.0),
                    fired=over and run.stop_reason == BUDGET_EXHAUSTED,
                )
            )
    return parts


def _said(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() or value >= 100 else f"{value:.3g}"


def _step(step: EndedNode) -> runs_pb2.RouteStep:
    return runs_pb2.RouteStep(
        node=step.node,
        end_time=timestamp_proto(step.ended_at),
        elapsed_ms=step.elapsed_ms,
        calls=calls_proto(step.calls),
        sequence=step.sequence,
        led_by=step.led_by,
    )


def _charge(charge: Charge) -> runs_pb2.Charge:
    return runs_pb2.Charge(
        sequence=charge.sequence,
        router=charge.router,
        rule=charge.rule,
        nodes=charge.nodes,
        spend=spend_proto(charge.spend),
        elapsed_ms=_ms(charge.elapsed),
        waited_ms=_ms(charge.waited),
        asked_ms=_ms(charge.asked),
    )


def _question(question: Question) -> runs_pb2.AskedQuestion:
    return runs_pb2.AskedQuestion(
        input_request_id=question.input_request_id,
        question=question.question,
        ask_time=timestamp_proto(question.asked_at),
        answer_time=timestamp_proto(question.answered_at),
        answered_by=question.answered_by,
        answer=question.answer,
        asked_ms=_ms(question.asked),
        led_by=question.led_by,
        right=right_of(question.right),
        role=question.role,
    )


def _wait(wait: DependencyWait) -> runs_pb2.DependencyWait:
    return runs_pb2.DependencyWait(
        dependency=wait.dependency,
        cause=wait.cause,
        begin_time=timestamp_proto(wait.began_at),
        end_time=timestamp_proto(wait.ended_at),
        led_by=wait.led_by,
    )


def _claim(claim: RunClaim) -> runs_pb2.RunClaim:
    return runs_pb2.RunClaim(
        claim_time=timestamp_proto(claim.claimed_at), cause=_CAUSES[claim.cause], after_sequence=claim.after_sequence
    )


def _ms(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
