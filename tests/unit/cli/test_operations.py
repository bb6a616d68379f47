"""Threads, pruning and replay as a terminal shows them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2
from signalbox.v1 import caller_pb2, maintenance_pb2, runs_pb2, threads_pb2

from services.cli import agents, maintenance, render, replay, threads
from services.cli.errors import CliError
from services.kit.text.words import struct_json
from tests.unit.cli.runs import RUN_ID

HISTORY, RUNS = maintenance_pb2.RETAINED_KIND_HISTORY, maintenance_pb2.RETAINED_KIND_RUNS

ROUTER = "data_chat.route_after_agent"


def data(kind: maintenance_pb2.RetainedKind, rows: int, agent: str = "data_chat") -> maintenance_pb2.PrunedData:
    """What one call removed."""
    return maintenance_pb2.PrunedData(kind=kind, agent=agent, row_count=rows, size_bytes=rows * 1000)


def test_what_several_calls_removed_is_summed_by_kind_and_agent() -> None:
    summed = maintenance.summed([data(HISTORY, 2), data(RUNS, 1), data(HISTORY, 3), data(HISTORY, 4, "other")])
    assert [(each.kind, each.agent, each.row_count, each.size_bytes) for each in summed] == [
        (HISTORY, "data_chat", 5, 5000),
        (HISTORY, "other", 4, 4000),
        (RUNS, "data_chat", 1, 1000),
    ]


def test_a_dry_run_does_not_claim_to_have_removed_anything() -> None:
    dry = render.to_text(maintenance.pruned_table([data(HISTORY, 1234)], dry_run=True))
    assert "would remove" in dry
    assert dry.splitlines()[1].split() == ["history", "data_chat", "1,234", "1,234,000"]
    assert "would" not in render.to_text(maintenance.pruned_table([data(HISTORY, 1)], dry_run=False))


def test_changes_of_limits_say_who_and_why_or_that_nobody_told() -> None:
    limit = maintenance_pb2.ChangedLimit(name="max_iterations", new_value=struct_pb2.Value(number_value=3))
    limit.old_value.number_value, limit.source = 5, maintenance_pb2.LIMIT_SOURCE_SETTING
    told: dict[str, Any] = {"agent": "data_chat", "release": "1.1", "limits": [limit]}
    by = maintenance_pb2.LimitChange(**told, revision=7, changed_by="ops", reason="too \x1b[31mlong")
    first = maintenance_pb2.LimitChange(agent="data_chat", release="1.0")
    shown = render.to_text(agents.changes_table([by, maintenance_pb2.LimitChange(**told), first]), width=300)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "max_iterations 5 → 3 the deployment's settings ops 1.1, revision 7 too" in lines[1]
    assert "\x1b" not in shown
    assert lines[2].count("unknown: the deployment does not say") == 2
    assert "the record begins" in lines[3]


def test_replay_shows_both_ways_and_what_came_after() -> None:
    spent = runs_pb2.Spend(model_calls=3, token_usage=caller_pb2.TokenUsage(input_tokens=700, total_tokens=700))
    divergence = maintenance_pb2.Divergence(
        run_id=RUN_ID, sequence=4, rule="tool_call", destination="fetch_code", other_rule="max_iterations",
        other_destination="__end__", spent_after=spent,
    )  # fmt: skip
    response = maintenance_pb2.ReplayDecisionsResponse(
        run_count=9, decision_count=40, skipped_count=2, diverged_count=2, divergences=[divergence], spent_after=spent
    )
    shown = render.to_text(replay.replayed(response, ROUTER, {"max_iterations": "5"}), width=300)
    assert "data_chat:\n  max_iterations: 5" in shown
    assert "tool_call → fetch_code" in shown
    assert "max_iterations → the end" in shown
    assert "With max_iterations = 5, 2 of 9 runs would have gone elsewhere" in shown
    assert "3 model calls" in shown
    assert "The first 1 are shown." in shown
    assert "2 of 40 decisions could not be decided anew" in shown


def test_decisions_that_come_out_otherwise_are_shown_with_their_facts() -> None:
    facts = struct_pb2.Struct()
    facts.update({"iteration_count": 3, "tool": "fetch_code\x1b[31m"})
    disagreement = maintenance_pb2.Disagreement(
        run_id=RUN_ID, sequence=4, router=ROUTER, facts=facts, rule="tool_call", destination="fetch_code",
        other_rule="max_iterations", other_destination="__end__",
    )  # fmt: skip
    response = maintenance_pb2.VerifyDecisionsResponse(
        decision_count=40, skipped_count=2, disagreement_count=2, disagreements=[disagreement]
    )
    shown = render.to_text(replay.verified(response), width=300)
    assert "iteration_count = 3.0, tool = 'fetch_code\\x1b[31m'" in shown
    assert "tool_call → fetch_code" in shown
    assert "max_iterations → the end" in shown
    assert "2 of 40 decisions come out otherwise." in shown
    assert "1 of them are shown." in shown
    assert "2 could not be decided anew" in shown


def test_a_replay_that_changes_nothing_says_so_plainly() -> None:
    response = maintenance_pb2.ReplayDecisionsResponse(run_count=9, decision_count=40)
    shown = render.to_text(replay.replayed(response, ROUTER, {}))
    assert "With today's limits, 0 of 9 runs would have gone elsewhere" in shown
    assert "could not" not in shown


@pytest.mark.parametrize("setting", ["max_iterations", "=5", ""])
def test_what_sets_no_limit_is_refused(setting: str) -> None:
    with pytest.raises(CliError, match="sets no limit"):
        replay.parse_limits([setting])


def test_limits_may_hold_an_equals_sign() -> None:
    assert replay.parse_limits(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}


def test_the_state_at_a_checkpoint_is_marked_among_the_others() -> None:
    checkpoints = [threads_pb2.Checkpoint(checkpoint_id=f"c{step}", step=step) for step in (-1, 0, 1)]
    values = struct_pb2.Struct()
    values.update({"counts": [1, 2], "answer": "\x1b[31mred"})
    state = threads_pb2.ThreadState(run_id=RUN_ID, checkpoint=checkpoints[1], next_nodes=["agent"], values=values)
    shown = render.to_text(threads.state(threads_pb2.GetThreadStateResponse(state=state, checkpoints=checkpoints)))
    assert [line.split()[0] for line in shown.splitlines()[1:4]] == ["-1", "→", "1"]
    assert "next: agent" in shown
    assert "\x1b" not in shown


def test_a_struct_has_whole_numbers_as_such() -> None:
    values = struct_pb2.Struct()
    values.update({"count": 3, "share": 0.5, "nested": [{"line": 7}]})
    assert struct_json(values).replace("\n", "").replace(" ", "") == '{"count":3,"nested":[{"line":7}],"share":0.5}'
