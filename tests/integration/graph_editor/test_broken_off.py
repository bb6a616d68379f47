"""A run that is cancelled or fails says what it has changed, as one that comes to its end does."""

from __future__ import annotations

import asyncio

from signalbox.v1 import graph_editor_pb2, runs_pb2

from tests.fixtures.scripted_model import Reply
from tests.integration.graph_editor.conftest import GIVEN_UP_S, Bench, EndedEdit
from tests.integration.graph_editor.scripted_goals import COMPLEX, DELETE, plan, ticket

CREATED = graph_editor_pb2.CHANGE_KIND_CREATED
FIRST = plan(ticket("T-1", status="open"), ticket("T-2"), reached=False)


async def cancelled(bench: Bench, run_id: str) -> EndedEdit:
    """Cancels a run; what the answer says is what is kept."""
    answer = await bench.stub.CancelRun(runs_pb2.CancelRunRequest(run_id=run_id), metadata=bench.auth)
    ended = await bench.watch(run_id)
    assert ended.state == "CANCELLED"
    assert ended.output == answer.run.output.graph_editor
    return ended


def check_told(ended: EndedEdit) -> None:
    """Both tickets are among its steps, in its change set and in its words."""
    assert [step.tool for step in ended.output.steps] == ["add_node", "add_node"]
    changes = {each.node.key: each.kind for each in ended.output.change_set.nodes}
    assert changes == {"T-1": CREATED, "T-2": CREATED}
    assert ended.outcome == "PARTLY"
    assert "Created the node Ticket 'T-1' (status: open)" in ended.output.answer


async def test_cancelled_while_it_asks(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[FIRST, plan(DELETE)])
    asked = await bench.ask()
    assert asked.state == "AWAITING_INPUT"
    check_told(await cancelled(bench, asked.run.run_id))


async def test_what_it_says_outlives_its_checkpoints(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[FIRST, plan(DELETE)])
    ended = await cancelled(bench, (await bench.ask()).run.run_id)
    await bench.forget_checkpoints(ended.run.run_id)
    check_told(await bench.watch(ended.run.run_id))


async def test_cancelled_before_it_has_done_anything(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[plan(DELETE)])
    await bench.call("add_node", label="Ticket", key="T-1")
    ended = await cancelled(bench, (await bench.ask()).run.run_id)
    assert (ended.outcome, list(ended.output.steps)) == ("NOT_DONE", [])
    assert ended.output.answer.endswith("Nothing was changed.")


async def test_cancelled_while_it_waits(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[FIRST, *[Reply.http_error(503)] * 99])
    asking = asyncio.create_task(bench.ask())
    async with asyncio.timeout(GIVEN_UP_S):
        while not (waiting := await waiting_runs(bench)):  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
    check_told(await cancelled(bench, waiting[0].run_id))
    await asking


async def waiting_runs(bench: Bench) -> list[runs_pb2.Run]:
    """The runs that wait for something that is away."""
    listed = await bench.stub.ListRuns(runs_pb2.ListRunsRequest(), metadata=bench.auth, timeout=GIVEN_UP_S)
    return [run for run in listed.runs if run.waiting_for]


async def test_failed(bench: Bench) -> None:
    bench.script(parse=[COMPLEX], plan=[FIRST, Reply.http_error(401)])
    ended = await bench.ask()
    assert ended.state == "FAILED"
    check_told(ended)
