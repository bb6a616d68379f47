"""A graph executor that answers what it never should: a change is made at most once, and is claimed only if known."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from signalbox.v1 import graph_editor_pb2, outcome_pb2, runs_pb2, tools_pb2

from tests.integration.graph_editor.scripted_goals import goal, ticket
from tests.integration.runtime.odd_services import Context, OddServices, output

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOAL = runs_pb2.RunInput(graph_editor=graph_editor_pb2.GraphEditorInput(goal="Do it."))
UNDO = runs_pb2.RunInput(graph_editor=graph_editor_pb2.GraphEditorInput(undo_run_id="r-1"))
CREATED = {"label": "Ticket", "key": "T-1", "before": None, "after": {"properties": {"key": "T-1"}}}
FORESEEN: dict[str, Any] = {"result": "created", "text": "t", "change": {"nodes": [CREATED], "edges": []}, "base": {}}
PREVIEW = output({"operations": [FORESEEN]})
DONE = output({"result": "created", "change": {"nodes": [CREATED], "edges": []}})
EMPTY = tools_pb2.CallToolResponse(output={})


@pytest.fixture
def odd(around_runtime: OddServices) -> OddServices:
    around_runtime.forget()
    around_runtime.model.respond("parse", lambda _: goal(*ticket("T-1")))
    around_runtime.answers = {"preview_changes": PREVIEW, "add_node": DONE}
    return around_runtime


def written(odd: OddServices) -> list[str]:
    """The ids of the operations that were asked for."""
    return [operation for tool, operation in odd.called if tool == "add_node"]


def refusing(*codes: grpc.StatusCode) -> Any:
    """Fails the calls with these in turn, and all others with the last."""
    left = list(codes)

    async def refuse(_request: Any, context: Context) -> Any:
        # From here on a channel repeats nothing.
        await context.send_initial_metadata(())
        await context.abort(left.pop(0) if len(left) > 1 else left[0], "so it is")

    return refuse


UNREADABLE = [
    EMPTY,
    tools_pb2.CallToolResponse(),
    output({"result": "created", "change": {"nodes": [{}]}}),
    output({"result": "created", "change": "x"}),
    output({"result": "created", "differs": [5]}),
    output({"result": 5}),
]


@pytest.mark.parametrize("answer", UNREADABLE)
async def test_what_a_change_came_to_is_looked_up_where_its_answer_says_nothing(
    odd: OddServices, answer: tools_pb2.CallToolResponse
) -> None:
    odd.answers["add_node"] = answer
    odd.kept = DONE
    run = await odd.run(GOAL)
    assert runs_pb2.RunState.Name(run.state) == "RUN_STATE_SUCCEEDED", run
    assert run.output.graph_editor.answer == "Created the node Ticket 'T-1'."
    assert len(written(odd)) == 1


@pytest.mark.parametrize("answer", UNREADABLE)
@pytest.mark.parametrize("kept", [EMPTY, grpc.StatusCode.UNIMPLEMENTED])
async def test_a_change_that_nobody_can_tell_of_is_not_claimed_and_not_made_again(
    odd: OddServices, answer: tools_pb2.CallToolResponse, kept: Any
) -> None:
    odd.answers["add_node"] = answer
    odd.kept = kept
    run = await odd.run(GOAL)
    assert (runs_pb2.RunState.Name(run.state), run.stop_reason) == ("RUN_STATE_NEEDS_REVIEW", "outcome_unknown")
    assert "not known whether it took effect" in run.output.graph_editor.answer
    assert run.output.graph_editor.answer.endswith("Nothing else was changed.")
    assert run.output.graph_editor.outcome == outcome_pb2.OUTCOME_NOT_DONE
    assert len(written(odd)) == 1


REFUSALS = [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED]


@pytest.mark.parametrize("code", [*REFUSALS, grpc.StatusCode.DATA_LOSS])
async def test_a_refusal_says_nothing_of_the_attempt_before_it(odd: OddServices, code: grpc.StatusCode) -> None:
    odd.answers["add_node"] = refusing(grpc.StatusCode.UNAVAILABLE, code)
    odd.kept = DONE
    run = await odd.run(GOAL)
    assert runs_pb2.RunState.Name(run.state) == "RUN_STATE_SUCCEEDED", run
    assert len(written(odd)) == 2
    assert len(set(written(odd))) == 1


@pytest.mark.parametrize("code", REFUSALS)
async def test_after_a_lost_answer_a_refusal_and_no_word_of_it_nobody_makes_it_again(
    odd: OddServices, code: grpc.StatusCode
) -> None:
    odd.answers["add_node"] = refusing(grpc.StatusCode.UNAVAILABLE, code)
    odd.kept = code
    run = await odd.run(GOAL)
    assert (runs_pb2.RunState.Name(run.state), run.stop_reason) == ("RUN_STATE_NEEDS_REVIEW", "outcome_unknown")
    assert len(set(written(odd))) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"operations": []}, {"operations": [FORESEEN] * 2}, {"operations": [{}]}, {"operations": ["x"]},
        {"operations": [{**FORESEEN, "change": {"nodes": [{}]}}]}, {"operations": [{**FORESEEN, "base": "x"}]},
        {"operations": [{**FORESEEN, "result": 5}]}, {"operations": [{**FORESEEN, "change": "x"}]},
    ],
)  # fmt: skip
async def test_a_change_that_is_not_foreseen_is_not_made(odd: OddServices, answer: dict[str, Any]) -> None:
    odd.answers["preview_changes"] = output(answer)
    run = await odd.run(GOAL)
    assert run.error == "the graph_executor was asked to run preview_changes, and its answer can't be read"
    assert not written(odd)


async def test_a_preview_says_what_a_change_is_based_on_and_not_what_it_is(odd: OddServices) -> None:
    told = {**FORESEEN, "base": {"key": "OTHER", "base_revision": "r1"}}
    odd.answers["preview_changes"] = output({"operations": [told]})
    run = await odd.run(GOAL)
    arguments = run.output.graph_editor.steps[0].arguments
    assert (arguments["key"], arguments["base_revision"]) == ("T-1", "r1")


@pytest.mark.parametrize("answer", [{}, {"changes": 5}, {"changes": [{"number": 1}]}])
async def test_changes_that_are_none_are_not_undone(odd: OddServices, answer: dict[str, Any]) -> None:
    odd.answers["read_changes"] = output(answer)
    run = await odd.run(UNDO)
    assert run.error == "the graph_executor was asked to run read_changes, and its answer can't be read"
