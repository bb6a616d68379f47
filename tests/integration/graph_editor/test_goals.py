"""Goals, plans and what becomes of them, with models that say what a test tells them to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from signalbox.v1 import graph_editor_pb2

from tests.fixtures.scripted_model import Reply
from tests.integration.graph_editor.conftest import COMPLEX, Bench, goal, plan, ticket
from tests.integration.graph_editor.faulty_executor import broken, lost, passed, refused

UPDATE = ("update_props", {"label": "Ticket", "key": "T-1", "properties": {"status": "closed"}})
DELETE = ("delete_node", {"label": "Ticket", "key": "T-1"})
DONE = ["planned", "valid", "ok", "goal_complete"]


async def test_a_plan_is_done_operation_by_operation(bench: Bench) -> None:
    ann = ("add_node", {"label": "User", "key": "ann", "properties": {"name": "Ann"}})
    ends = {"from": {"label": "User", "key": "ann"}, "to": {"label": "Ticket", "key": "T-1"}}
    bench.script(
        parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), ann, reached=False),
                               plan(("add_edge", {"type": "REPORTS", **ends}))],
    )  # fmt: skip
    ended = await bench.ask()
    assert ended.rules == [
        "complex", "planned", "valid", "ok", "next_operation", "ok", "next_step", "planned", "valid", "ok",
        "goal_complete",
    ]  # fmt: skip
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "DONE")
    assert ended.output.answer.splitlines() == [
        "Created the node Ticket 'T-1' (status: open).",
        "Created the node User 'ann' (name: Ann).",
        "Created the edge REPORTS from User 'ann' to Ticket 'T-1'.",
    ]
    assert [(step.tool, step.result) for step in ended.output.steps] == [
        ("add_node", "created"), ("add_node", "created"), ("add_edge", "created"),
    ]  # fmt: skip
    assert (len(ended.output.change_set.nodes), len(ended.output.change_set.edges)) == (2, 1)
    assert await bench.nodes("Ticket") == {"T-1": {"status": "open"}}
    assert len(set(bench.faulty.calls)) == len(bench.faulty.calls) == 3


async def test_a_preview_writes_nothing(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), UPDATE)])
    ended = await bench.ask(preview=True)
    assert ended.rules == ["complex", "planned", "previewed"]
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "NOT_DONE")
    assert "Change the node Ticket 'T-1': status: closed." in ended.output.answer
    assert [step.result for step in ended.output.steps] == ["created", "updated"]
    assert [dict(node.after) for node in ended.output.change_set.nodes] == [{"key": "T-1", "status": "closed"}]
    assert bench.faulty.calls == []
    assert await bench.nodes("Ticket") == {}


async def test_a_tool_that_the_goal_names_and_nobody_has_is_told_of(bench: Bench) -> None:
    bench.script(parse=[goal("send_email", {"to": "team"})])
    ended = await bench.ask("Use the `send_email` tool.")
    assert ended.rules == ["simple", "unknown_tool", "systematic", "informed"]
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "NOT_DONE")
    assert "I have no tool 'send_email'" in ended.output.answer
    assert "add_node" in ended.output.answer
    assert "undo_change" not in ended.output.answer


async def test_a_tool_that_only_the_model_made_up_is_planned_again_once(bench: Bench) -> None:
    made_up = plan(("make_ticket", {"key": "T-1"}))
    bench.script(parse=[COMPLEX], plan=[made_up, plan(ticket("T-1"))])
    ended = await bench.ask()
    assert ended.rules == ["complex", "planned", "unknown_tool", "retry", *DONE]
    told = bench.model.requests_of("plan")[1].last_text
    assert 'there is no tool \\"make_ticket\\"' in told

    bench.script(parse=[COMPLEX], plan=[made_up, made_up])
    asked = await bench.ask()
    assert asked.rules[-2:] == ["identical", "ask"]
    assert asked.state == "AWAITING_INPUT"


async def test_arguments_that_do_not_fit_are_planned_again(bench: Bench) -> None:
    misfit = ("add_node", {"label": "Ticket"})
    bench.script(parse=[goal(*misfit)], plan=[plan(ticket("T-1"))])
    ended = await bench.ask()
    assert ended.rules == ["simple", "invalid_arguments", "retry", *DONE]
    assert bench.faulty.calls[0][0] == "add_node"
    assert len(bench.faulty.calls) == 1


async def test_a_node_that_does_not_exist_is_no_success(bench: Bench) -> None:
    bench.script(parse=[goal(*UPDATE)], plan=[plan(UPDATE)])
    asked = await bench.ask()
    assert asked.rules == ["simple", "valid", "failed", "retry", "planned", "valid", "failed", "identical", "ask"]
    assert "There is no node Ticket 'T-1'" in asked.run.input_request.question
    ended = await bench.reply(asked, "leave it as it is")
    assert ended.rules[-1] == "declined"
    assert (ended.state, ended.outcome, ended.run.stop_reason) == ("SUCCEEDED", "NOT_DONE", "")
    assert "Nothing was changed" in ended.output.answer


async def test_advice_leads_to_another_plan(bench: Bench) -> None:
    bench.script(parse=[goal(*UPDATE)], plan=[plan(UPDATE), plan(ticket("T-1", status="closed"))])
    asked = await bench.ask()
    ended = await bench.reply(asked, "Create it, then.")
    assert ended.rules[-5:] == ["another_way", *DONE]
    assert "Create it, then." in bench.model.requests_of("plan")[1].last_text
    assert await bench.nodes("Ticket") == {"T-1": {"status": "closed"}}


async def test_what_is_there_already_with_other_values_was_not_what_was_meant(bench: Bench) -> None:
    await bench.call(*ticket("T-1", status="open")[:1], **ticket("T-1", status="open")[1])
    bench.script(parse=[goal(*ticket("T-1", status="closed"))], plan=[plan(UPDATE)])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "ok", "retry", "retry", *DONE]
    assert ended.output.answer == "Changed the node Ticket 'T-1': status: closed."


async def test_a_step_that_fails_once_is_done_with_the_same_key(bench: Bench) -> None:
    bench.faulty.faults = [refused("CONFLICT", "Somebody was faster.", retryable=True)]
    bench.script(parse=[goal(*ticket("T-1"))])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "failed", "retry_same", "ok", "goal_complete"]
    assert len(bench.faulty.calls) == 2
    assert len(set(bench.faulty.calls)) == 1


async def test_a_step_that_always_fails_is_given_up(bench: Bench) -> None:
    bench.faulty.faults = [refused("CONFLICT", "Somebody was faster.", retryable=True)] * 9
    bench.script(parse=[goal(*ticket("T-1"))])
    asked = await bench.ask()
    assert asked.rules == ["simple", "valid", *["failed", "retry_same"] * 2, "failed", "retries_exhausted", "ask"]
    assert await bench.nodes("Ticket") == {}


@pytest.mark.parametrize("fault", [lost, broken])
async def test_a_lost_answer_is_asked_for_again_with_the_same_key(bench: Bench, fault: Any) -> None:
    bench.faulty.faults = [fault]
    bench.script(parse=[goal(*ticket("T-1", status="open"))])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "ok", "goal_complete"]
    assert len(set(bench.faulty.calls)) == 1
    assert ended.output.steps[0].result == "created"
    assert ended.output.answer.startswith("Created the node Ticket 'T-1'")


@pytest.mark.parametrize(
    ("script", "planned_by"),
    [
        ({"parse": [goal(*ticket("T-1"))] * 2}, "parse"),
        ({"parse": [COMPLEX], "plan": [plan(ticket("T-1"))] * 2}, "plan"),
    ],
)
async def test_while_the_graph_is_away_a_model_plans_once_and_once_more_when_it_is_back(
    bench: Bench, script: dict[str, list[Reply]], planned_by: str
) -> None:
    bench.script(**script)
    bench.faulty.away = True
    asking = asyncio.create_task(bench.ask())
    async with asyncio.timeout(60):
        # The channel repeats a call a few times; then the run waits, and looks again.
        while bench.faulty.looks.count("read_changes") < 12:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
    bench.faulty.away = False
    ended = await asking
    assert (ended.state, ended.output.answer) == ("SUCCEEDED", "Created the node Ticket 'T-1'.")
    assert len(bench.model.requests_of(planned_by)) == 2
    assert set(bench.faulty.looks) == {"preview_changes", "read_changes"}


async def test_an_operation_that_is_asked_for_again_and_again_in_an_outage_is_one_call_of_the_budget(
    bench: Bench,
) -> None:
    bench.script(parse=[goal(*ticket("T-1")), goal(*ticket("T-2"))])
    plain = await bench.ask()
    bench.faulty.calls.clear()
    bench.faulty.faults = [lost] * 12
    # As many as it takes without an outage: the budget is spent when the operation is done, and not before.
    ended = await bench.ask(tool_calls=plain.run.spend.tool_calls)
    assert (ended.state, ended.rules) == ("SUCCEEDED", plain.rules)
    assert len(bench.faulty.calls) == 13
    assert any(call.kind == "wait" for decision in ended.decisions for call in decision.calls)
    assert ended.run.spend.tool_calls == plain.run.spend.tool_calls
    assert ended.run.spend.model_calls == plain.run.spend.model_calls


async def test_an_answer_that_never_comes_leaves_the_outcome_unknown(bench: Bench) -> None:
    bench.faulty.faults = [lost] * 1000
    bench.script(parse=[goal(*ticket("T-1"))])
    ended = await bench.ask(wall_time_s=5)  # what comes before takes next to none of it
    assert ended.rules[-1] == "outcome_unknown"
    assert (ended.state, ended.run.stop_reason) == ("NEEDS_REVIEW", "outcome_unknown")
    assert "not known whether it took effect" in ended.output.answer
    assert len(set(bench.faulty.calls)) == 1


async def test_a_deletion_needs_the_approval_of_its_plan(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    bench.script(parse=[goal(*DELETE)])
    asked = await bench.ask()
    assert asked.rules == ["simple", "needs_approval", "ask"]
    request = asked.run.input_request
    assert list(request.options) == ["approve", "decline"]
    assert not request.any_text
    assert "Delete the node Ticket 'T-1'." in request.question
    assert await bench.nodes("Ticket") == {"T-1": {}}
    ended = await bench.reply(asked, "approve")
    assert ended.rules[3:] == ["approved", "ok", "goal_complete"]
    assert await bench.nodes("Ticket") == {}


async def test_a_deletion_that_is_declined_is_not_done(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    bench.script(parse=[goal(*DELETE)])
    ended = await bench.reply(await bench.ask(), "decline")
    assert (ended.rules[-1], ended.state, ended.outcome) == ("declined", "SUCCEEDED", "NOT_DONE")
    assert await bench.nodes("Ticket") == {"T-1": {}}


async def test_what_changed_since_it_was_approved_is_planned_and_approved_again(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    bench.script(parse=[goal(*DELETE)], plan=[plan(DELETE)])
    asked = await bench.ask()
    await bench.call("update_props", label="Ticket", key="T-1", properties={"status": "open"})
    again = await bench.reply(asked, "approve")
    assert again.rules[3:] == ["approved", "failed", "retry", "planned", "needs_approval", "ask"]
    assert again.state == "AWAITING_INPUT"
    assert await bench.nodes("Ticket") == {"T-1": {"status": "open"}}
    ended = await bench.reply(again, "approve")
    assert (ended.rules[-1], await bench.nodes("Ticket")) == ("goal_complete", {})


async def test_a_contradiction_is_settled_by_the_option_that_a_person_chose(bench: Bench) -> None:
    found = {"about": "It is to be open, and closed.", "choices": ["open", "closed"]}
    bench.script(parse=[goal(complexity="complex", contradictions=[found]), goal(*ticket("T-1", status="closed"))])
    asked = await bench.ask()
    assert asked.rules == ["contradiction", "ask"]
    assert list(asked.run.input_request.options) == ["open", "closed", "leave it as it is"]
    ended = await bench.reply(asked, "closed")
    assert ended.rules[2:] == ["answered", "simple", "valid", "ok", "goal_complete"]
    assert '"answer": "closed"' in bench.model.requests_of("parse")[1].last_text
    assert await bench.nodes("Ticket") == {"T-1": {"status": "closed"}}


async def test_three_questions_are_enough(bench: Bench) -> None:
    bench.script(parse=[goal(complexity="complex", confidence=0.1, questions=["What?"])] * 4)
    waiting = await bench.ask()
    for _ in range(3):
        waiting = await bench.reply(waiting, "I don't know.")
    assert waiting.rules[-2:] == ["ambiguous", "question_limit"]
    assert (waiting.state, waiting.run.stop_reason) == ("NEEDS_REVIEW", "question_limit")


async def test_each_reading_of_a_goal_is_shown_more(bench: Bench) -> None:
    bench.script(parse=[Reply.text("What?")] * 3)
    ended = await bench.ask()
    assert ended.rules == ["parse_failed", "reparse", "parse_failed", "reparse", "parse_failed", "retries_exhausted",
                           "informed"]  # fmt: skip
    assert (ended.state, ended.run.stop_reason) == ("NEEDS_REVIEW", "retries_exhausted")
    first, second, third = (request.last_text for request in bench.model.requests_of("parse"))
    assert "REPORTS" not in first
    assert "REPORTS" in second
    assert "went_wrong" not in second
    assert "went_wrong" in third


async def test_permission_that_is_missing_is_told_of_at_once(bench: Bench) -> None:
    bench.script(parse=[goal("add_node", {"label": "Secret", "key": "S"})])
    ended = await bench.ask()
    assert ended.rules == ["simple", "valid", "failed", "systematic", "informed"]
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "NOT_DONE")
    assert "may not write nodes of the label Secret" in ended.output.answer


async def test_what_was_done_before_a_failure_is_said_and_no_more(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-2"), UPDATE), plan(UPDATE)])
    ended = await bench.reply(await bench.ask(), "leave it as it is")
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "PARTLY")
    assert "Created the node Ticket 'T-2'." in ended.output.answer
    assert "Changed" not in ended.output.answer


async def test_what_was_found_is_worded_or_shown_as_it_came(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    find = goal("query_graph", {"label": "Ticket"})
    bench.script(parse=[find, find], answer=[Reply.text("There is one ticket: T-1.")])
    assert (await bench.ask()).output.answer == "There is one ticket: T-1."
    bench.model.script("answer", [Reply.http_error(400)])
    ended = await bench.ask()
    assert (ended.state, "'T-1'" in ended.output.answer) == ("SUCCEEDED", True)


async def test_a_run_is_undone_by_another(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), UPDATE, ticket("T-2"))])
    made = await bench.ask()
    seen = await bench.ask(preview=True, undo=made.run.run_id)
    assert (seen.rules, len(await bench.nodes("Ticket"))) == (["simple", "previewed"], 2)
    undone = await bench.ask(undo=made.run.run_id)
    assert undone.rules == ["simple", "valid", *["ok", "next_operation"] * 2, "ok", "goal_complete"]
    assert (undone.state, undone.outcome) == ("SUCCEEDED", "DONE")
    assert undone.output.answer.splitlines() == [
        "Removed the node Ticket 'T-2'.",
        "Set back the node Ticket 'T-1': status: open.",
        "Removed the node Ticket 'T-1'.",
    ]
    assert await bench.nodes("Ticket") == {}
    again = await bench.ask(undo=undone.run.run_id)
    assert (again.outcome, await bench.nodes("Ticket")) == ("DONE", {"T-1": {"status": "closed"}, "T-2": {}})


async def test_an_edge_that_came_after_the_approval_is_shown_before_its_node_goes(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    await bench.call("add_node", label="User", key="ann")
    delete = ("delete_node", {"label": "Ticket", "key": "T-1", "with_edges": True})
    bench.script(parse=[goal(*delete)], plan=[plan(delete)])
    asked = await bench.ask()
    ends = {"from": {"label": "User", "key": "ann"}, "to": {"label": "Ticket", "key": "T-1"}}
    await bench.call("add_edge", type="REPORTS", **ends)
    again = await bench.reply(asked, "approve")
    assert again.rules[3:] == ["approved", "failed", "retry", "planned", "needs_approval", "ask"]
    assert sorted(await bench.nodes("Ticket")) == ["T-1"]
    assert "REPORTS from User 'ann' to Ticket 'T-1'" in again.run.input_request.question
    ended = await bench.reply(again, "approve")
    assert (ended.rules[-1], await bench.nodes("Ticket")) == ("goal_complete", {})


async def test_an_undo_that_was_undone_in_part_is_gone_on_with(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), UPDATE, ticket("T-2"))])
    made = await bench.ask()
    # The last change is taken back; then the undo comes to know no end.
    bench.faulty.faults = [passed, *[lost] * 1000]
    stopped = await bench.ask(undo=made.run.run_id, wall_time_s=5)
    assert (stopped.rules[-1], stopped.outcome) == ("outcome_unknown", "PARTLY")
    bench.faulty.faults = []
    ended = await bench.ask(undo=made.run.run_id)
    assert (ended.state, ended.outcome) == ("SUCCEEDED", "DONE")
    assert await bench.nodes("Ticket") == {}
    nothing = await bench.ask(undo=made.run.run_id)
    assert (nothing.outcome, nothing.output.answer) == ("DONE", "There was nothing to do.")


async def test_what_changed_since_stands_in_the_way_of_an_undo(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(ticket("T-1", status="open"), ticket("T-2"))])
    made = await bench.ask()
    await bench.call("update_props", label="Ticket", key="T-1", properties={"status": "closed"})
    ended = await bench.ask(undo=made.run.run_id)
    assert ended.rules == ["simple", "invalid_arguments", "systematic", "informed"]
    assert "the node Ticket 'T-1' is not as it was left" in ended.output.answer
    assert sorted(await bench.nodes("Ticket")) == ["T-1", "T-2"]


async def test_there_may_be_nothing_to_undo(bench: Bench) -> None:
    bench.script(parse=[goal("query_graph", {"label": "Ticket"})], answer=[Reply.text("None.")])
    made = await bench.ask()
    ended = await bench.ask(undo=made.run.run_id)
    assert (ended.outcome, ended.output.answer) == ("DONE", "There was nothing to do.")


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


class TestLongRuns:
    """Runs that may make many operations."""

    @pytest.fixture
    def policies(self) -> Mapping[str, Any]:
        return {"max_operations": 100}

    async def test_a_run_of_many_changes_is_undone(self, bench: Bench) -> None:
        def piece(first: int) -> Reply:
            return plan(*(ticket(f"T-{number}") for number in range(first, first + 20)), reached=first == 40)

        bench.script(parse=[COMPLEX], plan=[piece(0), piece(20), piece(40)])
        made = await bench.ask(tool_calls=500)
        assert (made.outcome, len(await bench.nodes("Ticket"))) == ("DONE", 60)
        undone = await bench.ask(undo=made.run.run_id, tool_calls=500)
        assert (undone.outcome, await bench.nodes("Ticket")) == ("DONE", {}), undone.output.answer


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
