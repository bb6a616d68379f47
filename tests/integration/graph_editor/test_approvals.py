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
