"""Runs that take back what another run did, as far as it is as that left it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from services.runtime.agents.graph_editor.wording import NOTHING_TO_UNDO
from tests.fixtures.scripted_model import Reply
from tests.integration.graph_editor.conftest import Bench
from tests.integration.graph_editor.faulty_executor import lost, passed
from tests.integration.graph_editor.scripted_goals import COMPLEX, UPDATE, goal, plan, ticket


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
    assert (nothing.outcome, nothing.output.answer) == ("NOT_DONE", NOTHING_TO_UNDO)


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
    assert (ended.outcome, ended.output.answer) == ("NOT_DONE", NOTHING_TO_UNDO)


class TestLongRuns:
    """Runs that may make many operations."""

    @pytest.fixture
    def policies(self) -> Mapping[str, Any]:
        return {"max_operations": 100, "max_unapproved_changes": 100}

    async def test_a_run_of_many_changes_is_undone(self, bench: Bench) -> None:
        def piece(first: int) -> Reply:
            return plan(*(ticket(f"T-{number}") for number in range(first, first + 20)), reached=first == 40)

        bench.script(parse=[COMPLEX], plan=[piece(0), piece(20), piece(40)])
        made = await bench.ask(tool_calls=500)
        assert (made.outcome, len(await bench.nodes("Ticket"))) == ("DONE", 60)
        undone = await bench.ask(undo=made.run.run_id, tool_calls=500)
        assert (undone.outcome, await bench.nodes("Ticket")) == ("DONE", {}), undone.output.answer
