"""What an operator's policy settles: how many operations a run makes, how long a question waits, who is asked then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from signalbox.v1 import graph_editor_pb2

from tests.integration.graph_editor.conftest import Bench
from tests.integration.graph_editor.scripted_goals import COMPLEX, DELETE, goal, plan, ticket


class TestLimits:
    """Limits that an operator sets."""

    @pytest.fixture
    def policies(self) -> Mapping[str, Any]:
        return {"question_lifetime_s": 0.5, "max_operations": 2}

    async def test_nobody_answers(self, bench: Bench) -> None:
        bench.script(parse=[goal(complexity="complex", confidence=0.1, questions=["What is broken?"])])
        waiting = await bench.ask("My dashboard is broken. Fix it.")
        ended = await bench.watch(waiting.run.run_id)
        while ended.state in ("AWAITING_INPUT", "PENDING", "RUNNING"):
            ended = await bench.watch(waiting.run.run_id)
        assert ended.rules == ["ambiguous", "ask", "expired"]
        assert (ended.state, ended.outcome, ended.run.stop_reason) == ("NEEDS_REVIEW", "NOT_DONE", "expired")
        assert "Nobody answered in time" in ended.output.answer

    async def test_an_undo_that_takes_too_many_operations(self, bench: Bench) -> None:
        bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1"), ticket("T-2"), ticket("T-3"), ticket("T-4"))])
        first = await bench.ask()
        assert (first.outcome, sorted(await bench.nodes("Ticket"))) == ("PARTLY", ["T-1", "T-2"])
        undone = await bench.ask(undo=first.run.run_id)
        assert (undone.rules[-1], undone.outcome, await bench.nodes("Ticket")) == ("goal_complete", "DONE", {})

    async def test_a_goal_that_takes_too_many_operations(self, bench: Bench) -> None:
        bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1"), ticket("T-2"), ticket("T-3"))])
        ended = await bench.ask()
        assert ended.rules[-2:] == ["step_limit", "informed"]
        assert (ended.state, ended.outcome, ended.run.stop_reason) == ("NEEDS_REVIEW", "PARTLY", "step_limit")
        assert sorted(await bench.nodes("Ticket")) == ["T-1", "T-2"]


class TestExpiry:
    """What no answer means, by the agent's limits."""

    @pytest.fixture
    def policies(self) -> Mapping[str, Any]:
        return {
            "question_lifetime_s": 1.0, "escalation_role": "dispatcher", "expiry_declines": True,
        }  # fmt: skip

    async def test_it_is_asked_of_a_role_and_then_left_as_it_is(self, bench: Bench) -> None:
        await bench.call("add_node", label="Ticket", key="T-1")
        bench.script(parse=[goal(*DELETE)])
        asked = await bench.ask()
        ended = asked
        while ended.state in ("AWAITING_INPUT", "PENDING", "RUNNING"):
            ended = await bench.watch(asked.run.run_id)
        assert ended.rules == ["simple", "needs_approval", "ask", "escalated", "defaulted"]
        assert (ended.state, ended.outcome, ended.run.stop_reason) == ("SUCCEEDED", "NOT_DONE", "")
        assert "Nobody answered in time" in ended.output.answer
        assert await bench.nodes("Ticket") == {"T-1": {}}


class TestEscalation:
    """A question that nobody answers is asked of a role, and truly waits again."""

    @pytest.fixture
    def policies(self) -> Mapping[str, Any]:
        return {"escalation_role": "dispatcher", "approval_role": "approver"}

    async def test_a_role_answers_what_the_first_ones_did_not(self, bench: Bench) -> None:
        await bench.call("add_node", label="Ticket", key="T-1")
        bench.script(parse=[goal(*DELETE)])
        asked = await bench.ask()
        first = await bench.question(asked, "bob", "approver")
        assert (first.for_caller, list(first.roles)) == (False, ["approver"])
        [deleted] = first.graph_change_set.nodes
        assert (deleted.node.key, deleted.kind) == ("T-1", graph_editor_pb2.CHANGE_KIND_DELETED)
        with pytest.raises(grpc.aio.AioRpcError) as not_yet:
            await bench.question(asked, "dora", "dispatcher")
        assert not_yet.value.code() is grpc.StatusCode.NOT_FOUND

        await bench.expire(asked)
        # Whoever watches sees the second question as the first: the run has gone on, and waits again.
        async with asyncio.timeout(60):
            while (second := await bench.question(asked, "bob", "approver")).escalated_from == "":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert second.escalated_from == first.input_request.input_request_id
        assert list(second.roles) == ["approver", "dispatcher"]
        assert second.plan_hash == first.plan_hash
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await bench.answer(first, "approve", "bob", "approver")
        assert late.value.code() is grpc.StatusCode.FAILED_PRECONDITION

        await bench.answer(second, "approve", "dora", "dispatcher")
        ended = await bench.watch(asked.run.run_id)
        assert ended.rules == [
            "simple", "needs_approval", "ask", "escalated", "approved", "ok", "goal_complete",
        ]  # fmt: skip
        people = [(call.name, call.outcome) for each in ended.decisions for call in each.calls if call.kind == "person"]
        assert people == [("", "expired"), ("dora", "role dispatcher")]
        assert await bench.nodes("Ticket") == {}
