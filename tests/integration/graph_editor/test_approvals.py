"""An approval is for one carrying out of one plan: it outlives what breaks, and is never good for a second one."""

from __future__ import annotations

import pytest

from services.kit.identity.caller import Caller
from tests.integration.graph_editor.conftest import Bench
from tests.integration.graph_editor.faulty_executor import lost, passed
from tests.integration.graph_editor.scripted_goals import COMPLEX, DELETE, Call, plan, ticket

COUNT: Call = (
    "cypher_query",
    {"query": "MATCH (t:Ticket {key: 'T-1'}) SET t.points = coalesce(t.points, 0) + 1", "write": True},
)
# Nothing is divided by 0: it is refused until the ticket has a summary.
DIVIDE: Call = (
    "cypher_query",
    {"query": "MATCH (t:Ticket {key: 'T-1'}) SET t.points = 8 / size(t.summary)", "write": True},
)
ASKED = ["planned", "needs_approval", "ask"]
APPLIED = ["approved", "ok"]


@pytest.fixture
async def writers(bench: Bench) -> Bench:
    """The bench of a caller who may write with Cypher, and a ticket."""
    bench.caller = Caller("27", frozenset({"graph_writer"}))
    await bench.call("add_node", label="Ticket", key="T-1", properties={"summary": ""})
    return bench


async def test_each_carrying_out_of_the_same_query_is_approved(writers: Bench) -> None:
    writers.script(parse=[COMPLEX], plan=[plan(COUNT, reached=False)] * 2 + [plan(COUNT)])
    asked = await writers.ask()
    assert asked.rules == ["complex", *ASKED]
    again = await writers.reply(asked, "approve")
    assert again.rules[4:] == [*APPLIED, "next_step", *ASKED]
    assert (await writers.nodes("Ticket"))["T-1"]["points"] == 1
    ended = await writers.reply(await writers.reply(again, "approve"), "decline")
    assert (ended.rules[-1], ended.outcome) == ("declined", "PARTLY")
    assert (await writers.nodes("Ticket"))["T-1"]["points"] == 2


async def test_a_query_that_matched_nothing_was_carried_out_too(writers: Bench) -> None:
    nothing: Call = ("cypher_query", {"query": "MATCH (t:Ticket {key: 'T-2'}) SET t.points = 1", "write": True})
    writers.script(parse=[COMPLEX], plan=[plan(nothing)] * 2)
    again = await writers.reply(await writers.ask(), "approve")
    assert again.rules[4:] == [*APPLIED, "retry", "retry", *ASKED]


async def test_a_node_that_is_there_again_as_it_was_is_deleted_with_another_approval(bench: Bench) -> None:
    await bench.call("add_node", label="Ticket", key="T-1")
    bench.script(parse=[COMPLEX], plan=[plan(DELETE, reached=False), plan(ticket("T-1"), reached=False), plan(DELETE)])
    again = await bench.reply(await bench.ask(), "approve")
    assert again.rules[4:] == [*APPLIED, "next_step", "planned", "valid", "ok", "next_step", *ASKED]
    assert sorted(await bench.nodes("Ticket")) == ["T-1"]
    assert (await bench.reply(again, "approve")).rules[-1] == "goal_complete"


async def test_a_query_that_was_refused_before_anything_took_effect_is_still_approved(writers: Bench) -> None:
    writers.script(parse=[COMPLEX], plan=[plan(DIVIDE)] * 4)
    stuck = await writers.reply(await writers.ask(), "approve")
    assert stuck.rules[4:] == ["approved", "failed", "retry", "planned", "valid", "failed", "identical", "ask"]
    await writers.call("update_props", label="Ticket", key="T-1", properties={"summary": "long"})
    ended = await writers.reply(stuck, "It has a summary now; do the same again.")
    assert ended.rules[12:] == ["another_way", "planned", "valid", "ok", "goal_complete"]
    assert (await writers.nodes("Ticket"))["T-1"]["points"] == 2


async def test_what_is_half_done_goes_on_without_being_asked_for_again(bench: Bench) -> None:
    second: Call = ("delete_node", {"label": "Ticket", "key": "T-2"})
    for key in ("T-1", "T-2"):
        await bench.call("add_node", label="Ticket", key=key)
    bench.faulty.faults = [passed, lost]
    bench.script(parse=[COMPLEX], plan=[plan(DELETE, second)])
    ended = await bench.reply(await bench.ask(), "approve")
    assert ended.rules[4:] == [*APPLIED, "next_operation", "ok", "goal_complete"]
    assert len(bench.faulty.calls) > len(set(bench.faulty.calls)) == 2
    assert await bench.nodes("Ticket") == {}


def tickets(first: int, last: int) -> list[Call]:
    """Adds tickets that are numbered from one to another."""
    return [ticket(f"N-{number}") for number in range(first, last + 1)]


async def test_a_plan_that_changes_many_elements_is_approved_with_what_it_changes(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(*tickets(1, 11))])
    asked = await bench.ask()
    assert asked.rules == ["complex", *ASKED]
    shown = (await bench.question(asked, "27")).graph_change_set
    assert len(shown.nodes) == 11
    assert await bench.nodes("Ticket") == {}
    ended = await bench.reply(asked, "approve")
    assert (ended.rules[-1], ended.outcome, len(ended.output.change_set.nodes)) == ("goal_complete", "DONE", 11)


async def test_small_plans_one_after_another_are_counted_together(bench: Bench) -> None:
    bench.script(
        parse=[COMPLEX],
        plan=[plan(*tickets(1, 10), reached=False), plan(*tickets(11, 11), reached=False), plan(*tickets(12, 12))],
    )
    asked = await bench.ask()
    assert asked.rules[-3:] == ASKED
    assert len(await bench.nodes("Ticket")) == 10
    assert "that makes 11 nodes and edges" in asked.run.input_request.question
    again = await bench.reply(asked, "approve")
    assert again.rules[-3:] == ASKED, "what was approved does not make room for more"
    assert (await bench.reply(again, "decline")).outcome == "PARTLY"
    assert len(await bench.nodes("Ticket")) == 11


async def test_the_same_elements_changed_again_are_no_more_elements(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(*tickets(1, 10), reached=False), plan(*tickets(1, 10))])
    assert (await bench.ask()).rules[-1] == "goal_complete"
