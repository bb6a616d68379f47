"""What people are asked about a goal: advice, approval or a choice, and what their answers lead to."""

from __future__ import annotations

from tests.integration.graph_editor.conftest import DONE, Bench
from tests.integration.graph_editor.scripted_goals import DELETE, UPDATE, goal, plan, ticket


async def test_advice_leads_to_another_plan(bench: Bench) -> None:
    bench.script(parse=[goal(*UPDATE)], plan=[plan(UPDATE), plan(ticket("T-1", status="closed"))])
    asked = await bench.ask()
    ended = await bench.reply(asked, "Create it, then.")
    assert ended.rules[-5:] == ["another_way", *DONE]
    assert "Create it, then." in bench.model.requests_of("plan")[1].last_text
    assert await bench.nodes("Ticket") == {"T-1": {"status": "closed"}}


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


async def test_taking_a_property_away_needs_an_approval_that_shows_it(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1", properties={"status": "open"})
    bench.script(parse=[goal("update_props", {"label": "Ticket", "key": "T-1", "remove": ["status"]})])
    asked = await bench.ask()
    assert asked.rules == ["simple", "needs_approval", "ask"]
    assert "status" in asked.run.input_request.question
    ended = await bench.reply(asked, "approve")
    assert (ended.rules[-1], await bench.nodes("Ticket")) == ("goal_complete", {"T-1": {}})


async def test_nobody_is_asked_for_what_would_be_refused(bench: Bench) -> None:
    secret = ("delete_node", {"label": "Secret", "key": "s"})
    bench.script(parse=[goal(*secret)])
    ended = await bench.ask()
    assert ended.rules == ["simple", "invalid_arguments", "systematic", "informed"]
    bench.script(parse=[goal(*DELETE)], plan=[plan(DELETE)])
    nothing = await bench.ask()
    assert nothing.rules == ["simple", "invalid_arguments", "retry", "planned", "invalid_arguments", "identical", "ask"]
    assert "There is no node" in nothing.run.input_request.question


async def test_a_deletion_that_is_declined_is_not_done(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    bench.script(parse=[goal(*DELETE)])
    ended = await bench.reply(await bench.ask(), "decline")
    assert (ended.rules[-1], ended.state, ended.outcome) == ("declined", "SUCCEEDED", "DECLINED")
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
